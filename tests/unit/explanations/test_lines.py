"""Lines: a word per line with signs for its score, readable without colour."""

from __future__ import annotations

from dataclasses import replace

from palbert.explanations.explanation import Explanation, Interactions, WordScore
from palbert.explanations.lines import explanation_lines

WORDS = (WordScore("Not", 0, 3, -1.0, 0), WordScore("bad", 4, 7, 0.5, 0), WordScore("rain", 0, 4, 0.0, 1))
EXPLANATION = Explanation("quora", "yes", "occlusion", WORDS, 0.0, 1.0, 0.25, None, None)


def test_each_word_has_a_line_with_its_score_in_signs() -> None:
    assert explanation_lines(EXPLANATION) == [
        "quora: log odds of yes +1.00, without its words +0.25 (occlusion)",
        "    -1.000  ------------  Not",
        "    +0.500  ++++++        bad",
        "  ----------------------",
        "    +0.000                rain",
    ]


def test_the_strongest_interactions_come_first_and_their_number_is_told() -> None:
    found = Interactions((0, 1), (2,), ((0.5,), (-2.0,)), 3)
    assert explanation_lines(replace(EXPLANATION, interactions=found))[5:] == [
        "  Words that act together, 2 of 2 pairs; 3 words with little effect were left out:",
        "    -2.000  bad & rain",
        "    +0.500  Not & rain",
    ]
    many = Interactions(tuple(range(2)), tuple([2] * 30), tuple(tuple(map(float, range(30))) for _ in range(2)), 0)
    lines = explanation_lines(replace(EXPLANATION, interactions=many))[5:]
    assert lines[0] == "  Words that act together, 10 of 60 pairs:" and len(lines) == 11


def test_a_text_without_words_has_a_heading() -> None:
    assert len(explanation_lines(replace(EXPLANATION, words=()))) == 1
