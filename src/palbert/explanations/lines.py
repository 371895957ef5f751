"""Lines: explanations in a terminal, readable without colours."""

from __future__ import annotations

from palbert.explanations.explanation import Explanation, Interactions
from palbert.explanations.markup import headline, shades

BAR = 12
"""Signs of the strongest score."""
MOST_PAIRS = 10
"""Interactions that are shown, the strongest first."""


def explanation_lines(explanation: Explanation) -> list[str]:
    """Return a heading, a line per word in the order of the text, and the strongest interactions."""
    lines = [headline(explanation)]
    strengths = shades([word.score for word in explanation.words])
    column = 0
    for word, strength in zip(explanation.words, strengths, strict=True):
        if word.column != column:
            column = word.column
            lines.append("  " + "-" * (BAR + 10))
        signs = ("+" if strength > 0 else "-") * round(BAR * abs(strength))
        lines.append(f"  {word.score:+8.3f}  {signs:<{BAR}}  {word.text}")
    if explanation.interactions is not None:
        lines += _interaction_lines(explanation, explanation.interactions)
    return lines


def _interaction_lines(explanation: Explanation, interactions: Interactions) -> list[str]:
    pairs = [
        (value, explanation.words[first].text, explanation.words[second].text)
        for first, values in zip(interactions.first, interactions.values, strict=True)
        for second, value in zip(interactions.second, values, strict=True)
    ]
    pairs.sort(key=lambda pair: -abs(pair[0]))
    more = f"; {interactions.left_out} words with little effect were left out" if interactions.left_out else ""
    lines = [f"  Words that act together, {min(MOST_PAIRS, len(pairs))} of {len(pairs)} pairs{more}:"]
    return lines + [f"  {value:+8.3f}  {first} & {second}" for value, first, second in pairs[:MOST_PAIRS]]
