"""Word marks: pieces that are the text again, with strengths on one scale per row."""

from __future__ import annotations

import pytest

from palbert.reporting.word_marks import WordMark, mark_row, mark_words


def test_pieces_are_words_and_what_lies_between() -> None:
    assert mark_words("It's  dull.", [(0, 4, 1.0), (6, 10, -2.0), (10, 11, 0.0)], strongest=2.0) == [
        WordMark("It's", 1.0, 0.5),
        WordMark("  "),
        WordMark("dull", -2.0, -1.0),
        WordMark(".", 0.0, 0.0),
    ]


@pytest.mark.parametrize("text", ["", "a b", "a b and more", " a b ", "a"])
def test_pieces_joined_are_the_text_and_words_behind_its_end_are_left_out(text: str) -> None:
    pieces = mark_words(text, [(0, 1, 1.0), (2, 3, 1.0)], strongest=1.0)
    assert "".join(piece.text for piece in pieces) == text


def test_a_row_has_one_scale_for_both_texts() -> None:
    [one], [two] = mark_row(["a", "b"], [[(0, 1, 1.0)], [(0, 1, -4.0)]])
    assert (one.strength, two.strength) == (0.25, -1.0)


def test_scores_of_0_have_no_strength() -> None:
    assert mark_row(["a"], [[(0, 1, 0.0)]]) == [[WordMark("a", 0.0, 0.0)]]
