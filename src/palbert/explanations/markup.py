"""Markup: explanations as HTML, words coloured by their scores; everything that comes from a text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palbert.explanations.explanation import Explanation, Interactions, SimilarRow, WordScore

FOR, AGAINST = "33,102,172", "178,24,43"
"""Blue and red of ColorBrewer's RdBu, which people with any colour blindness can tell apart."""
SHOWN = 20
"""Explanations that a notebook shows."""
STRONGEST = 0.6
"""The opacity of the strongest colour, on which dark text can still be read."""
PAGE = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
    "<style>body {{ font: 16px/1.9 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; "
    "color: #1d2126; background: #fff }} section {{ border-top: 1px solid #e6e7ea; padding: 1em 0 }} "
    ".similar {{ border-collapse: collapse; line-height: 1.5; margin-top: 1em }} .similar caption {{ text-align: left; "
    "font-size: 0.9em }} .similar :is(th, td) {{ text-align: left; vertical-align: top; padding: 0.2em 1em 0.2em 0 }} "
    "</style>\n"
    "</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
)


def explanations_page(
    title: str, explanations: Iterable[Explanation], similar: Sequence[Sequence[SimilarRow]] | None = None
) -> str:
    """Return a page that shows explanations one below the other, and loads nothing from elsewhere.

    Args:
        title: What the page is about.
        explanations: What it shows.
        similar: For each explanation, the training rows that are most like its texts.
    """
    shown = [explanation_html(each) for each in explanations]
    if similar is not None:
        shown = [html + _similar_table(rows) for html, rows in zip(shown, similar, strict=True)]
    body = "\n".join(f"<section>{html}</section>" for html in shown)
    return PAGE.format(title=escape(title), body=body)


def explanations_html(explanations: Sequence[Explanation]) -> str:
    """Return explanations one below the other, as many as a notebook shows, and how many more there are."""
    shown = '<hr style="margin:0.5em 0">'.join(map(explanation_html, explanations[:SHOWN]))
    return shown + _more(len(explanations))


def similar_html(rows: Sequence[Sequence[SimilarRow]]) -> str:
    """Return the training rows that are like each text as tables, as many as a notebook shows."""
    return "".join(map(_similar_table, rows[:SHOWN])) + _more(len(rows))


def _more(count: int) -> str:
    return f"<div>… and {count - SHOWN:,} more</div>" if count > SHOWN else ""


def explanation_html(explanation: Explanation) -> str:
    """Return an explanation as HTML: what is explained, then the texts with coloured words."""
    parts = [f'<div style="font-size:0.9em">{escape(headline(explanation))}</div>']
    columns = sorted({word.column for word in explanation.words})
    strengths = dict(zip(explanation.words, shades([word.score for word in explanation.words]), strict=True))
    for column in columns:
        words = [word for word in explanation.words if word.column == column]
        parts.append(f'<div dir="auto">{_marked(words, [strengths[word] for word in words])}</div>')
    if explanation.interactions is not None:
        parts.append(_interaction_table(explanation.words, explanation.interactions))
    return "".join(parts)


def headline(explanation: Explanation) -> str:
    """Say in a line what is explained, and how."""
    what = f"log odds of {explanation.target}" if explanation.target else "output"
    facts = [explanation.method.replace("-", " ")]
    if explanation.steps is not None:
        facts.append(f"{explanation.steps} steps")
    if explanation.completeness_error is not None:
        facts.append(f"error {explanation.completeness_error:.1%}")
    return (
        f"{explanation.task}: {what} {explanation.output:+.2f}, without its words {explanation.baseline:+.2f}"
        f" ({', '.join(facts)})"
    )


def shades(scores: Sequence[float]) -> list[float]:
    """Return scores divided by the strongest one, from −1 to 1."""
    most = max((abs(score) for score in scores), default=0.0)
    return [score / most if most > 0 else 0.0 for score in scores]


def _marked(words: Sequence[WordScore], strengths: Sequence[float]) -> str:
    """Return words with their colours; words against the answer are underlined too."""
    pieces, end = [], None
    for word, strength in zip(words, strengths, strict=True):
        space = " " if end is not None and word.start > end else ""
        end = word.end
        line = ";border-bottom:2px dotted" if strength < 0 and abs(strength) >= 0.1 else ""
        style = f"background:rgba({AGAINST if strength < 0 else FOR},{STRONGEST * abs(strength):.2f}){line}"
        pieces.append(f'{space}<span style="{style}" title="{word.score:+.3f}">{escape(word.text)}</span>')
    return "".join(pieces)


def _similar_table(rows: Sequence[SimilarRow]) -> str:
    """Return training rows as a table: their cosine, their label, their texts."""
    lines = []
    for row in rows:
        label = "" if row.answer is None else escape(str(row.answer))
        texts = "<br>".join(f'<span dir="auto">{escape(text)}</span>' for text in row.texts)
        lines.append(f"<tr><td>{row.similarity:.3f}</td><td>{label}</td><td>{texts}</td></tr>")
    head = "<tr><th>Cosine</th><th>Label</th><th>Text</th></tr>"
    return f'<table class="similar"><caption>Training rows most like it</caption>{head}{"".join(lines)}</table>'


def _interaction_table(words: Sequence[WordScore], interactions: Interactions) -> str:
    """Return the interactions of a pair: the first text's words down, the second text's across."""
    flat = shades([value for row in interactions.values for value in row])
    width = len(interactions.second)
    head = "".join(f"<th>{escape(words[index].text)}</th>" for index in interactions.second)
    rows = []
    for number, (index, values) in enumerate(zip(interactions.first, interactions.values, strict=True)):
        cells = "".join(
            f'<td style="background:rgba({AGAINST if strength < 0 else FOR},{STRONGEST * abs(strength):.2f})">'
            f"{value:+.2f}</td>"
            for value, strength in zip(values, flat[number * width : (number + 1) * width], strict=True)
        )
        rows.append(f"<tr><th>{escape(words[index].text)}</th>{cells}</tr>")
    cut = f"<caption>{interactions.left_out} words left out</caption>" if interactions.left_out else ""
    return f"<table>{cut}<tr><th></th>{head}</tr>{''.join(rows)}</table>"
