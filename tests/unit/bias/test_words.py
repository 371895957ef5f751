"""Words: places, capitals and articles."""

from __future__ import annotations

import pytest

from palbert.bias.words import Sentence, article, in_case, words_of


def test_words_joined_by_a_hyphen_are_one() -> None:
    assert [word.text for word in words_of("A Chinese-American he-man didn't.")] == [
        "A", "Chinese-American", "he-man", "didn", "t",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("old", "an"),
        ("woman", "a"),
        ("heir", "an"),
        ("European", "a"),
        ("hour", "an"),
        ("Iranian", "an"),
        ("user", "a"),
    ],
)
def test_the_article_follows_the_sound(word: str, expected: str) -> None:
    assert article(word) == expected


def test_a_word_gets_the_capitals_of_the_one_it_replaces() -> None:
    assert in_case("she", "He", begins=True, is_upper=False) == "She"
    assert in_case("she", "he", begins=True, is_upper=False) == "she"
    assert in_case("Asian", "black", begins=False, is_upper=False) == "Asian"
    assert in_case("she", "HE", begins=False, is_upper=True) == "SHE"


def test_a_sentence_begins_behind_a_full_stop_and_inside_quotes() -> None:
    sentence = Sentence.of('It ended. "She left," he said.')
    assert [word.text for number, word in enumerate(sentence.words) if sentence.begins(number)] == ["It", "She", "he"]


def test_words_are_neighbours_only_with_space_between() -> None:
    sentence = Sentence.of("her, book of his")
    assert sentence.next_word(0) is None
    assert sentence.next_word(1) == sentence.words[2]
    assert sentence.previous_word(1) is None
    assert sentence.next_word(3) is None
