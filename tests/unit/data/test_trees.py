"""Phrases of graded trees: every node is a row, and broken trees are reported with their place."""

from __future__ import annotations

import pytest

from palbert.data.trees import Phrase, phrases
from palbert.errors import DataError

TREES = ["(3 (2 (2 Quite) (3 good)) (2 .))", "", "(1 (2 -LRB-) (1 (1 not) (3 good)))"]


def test_every_node_is_a_phrase_with_its_own_grade_and_no_text_is_repeated() -> None:
    assert list(phrases(TREES)) == [
        Phrase("Quite good .", "3", True),
        Phrase(".", "2", False),
        Phrase("Quite good", "2", False),
        Phrase("good", "3", False),
        Phrase("Quite", "2", False),
        Phrase("( not good", "1", True),
        Phrase("not good", "1", False),
        Phrase("not", "1", False),
        Phrase("(", "2", False),
    ]


@pytest.mark.parametrize("broken", ["(3 (2 good)", "(3 (x good))", "good", "(3)", "(3 good))", "(3 good) (2 bad)", "("])
def test_a_broken_tree_is_reported_with_its_line(broken: str) -> None:
    with pytest.raises(DataError, match="trees, line 2: "):
        list(phrases(["(2 fine)", broken]))


def test_escapes_inside_words_are_read_too() -> None:
    whole, *parts = phrases([r"(2 (2 8\/2) (3 -LRB-Fellini\*-RRB-))"])
    assert whole.text == "8/2 (Fellini*)" and [part.text for part in parts] == ["(Fellini*)", "8/2"]
