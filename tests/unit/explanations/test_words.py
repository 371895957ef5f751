"""Words: spans of any language that cover the tokens, and no token without a word."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from palbert.explanations.words import words_of


def spans(text: str, *pieces: str) -> list[tuple[int, int]]:
    """Return where pieces are in a text, one after the other."""
    found, start = [], 0
    for piece in pieces:
        start = text.index(piece, start)
        found.append((start, start + len(piece)))
        start += len(piece)
    return found


def shown(text: str, *pieces: str) -> list[str]:
    words, _ = words_of(text, spans(text, *pieces))
    return [text[start:end] for start, end in words]


def test_pieces_of_a_word_are_one_word_and_punctuation_is_a_word_of_its_own() -> None:
    text = "Unbelievable, isn't it?"
    words, owners = words_of(text, spans(text, "Un", "believ", "able", ",", "isn", "'", "t", "it", "?"))
    assert [text[start:end] for start, end in words] == ["Unbelievable", ",", "isn't", "it", "?"]
    assert owners == [0, 0, 0, 1, 2, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("漢字だ。", ["漢", "字", "だ", "。"], ["漢", "字", "だ", "。"]),
        ("漢字だ。", ["漢字", "だ", "。"], ["漢字", "だ", "。"]),
        ("สวัสดี", ["สวัส", "ดี"], ["สวัส", "ดี"]),
        ("नमस्ते दुनिया", ["न", "मस", "्ते", "दुनिया"], ["नमस्ते", "दुनिया"]),
        ("مرحبا بك", ["مر", "حبا", "بك"], ["مرحبا", "بك"]),
        ("👩‍👩‍👧 ok", ["👩", "‍", "👩", "‍", "👧", "ok"], ["👩‍👩‍👧", "ok"]),
        ("cafe\u0301!", ["cafe", "\u0301", "!"], ["cafe\u0301", "!"]),
        ("pi is 3.14.", ["pi", "is", "3", ".", "14", "."], ["pi", "is", "3.14", "."]),
        ("film. Good", ["film.", "Good"], ["film.", "Good"]),
        ("a b", ["a", " b"], ["a", "b"]),
        ("a\n\nb", ["a", "\n\n", "b"], ["a", "\n\n", "b"]),
        ("New York", ["New York"], ["New York"]),
    ],
)
def test_words_of_many_languages(text: str, pieces: list[str], expected: list[str]) -> None:
    assert shown(text, *pieces) == expected


def test_words_without_a_token_are_left_out() -> None:
    text = "a \x00 b and more"
    words, owners = words_of(text, [(0, 1), (4, 5)])
    assert ([text[start:end] for start, end in words], owners) == (["a", "b"], [0, 1])


def test_empty_tokens_belong_to_the_next_word_or_the_last() -> None:
    assert words_of("ab cd", [(0, 0), (0, 2), (3, 3), (3, 5), (5, 5)]) == ([(0, 2), (3, 5)], [0, 0, 1, 1, 1])


def test_a_text_without_words_has_no_words_unless_it_has_tokens() -> None:
    assert words_of("", []) == ([], [])
    assert words_of("", [(0, 0)]) == ([(0, 0)], [0])


BYTES = Tokenizer(models.BPE(vocab={each: n for n, each in enumerate(pre_tokenizers.ByteLevel.alphabet())}, merges=[]))
BYTES.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
BYTES.decoder = decoders.ByteLevel()
LOWERED = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
LOWERED.normalizer = normalizers.BertNormalizer(lowercase=True)
LOWERED.pre_tokenizer = pre_tokenizers.BertPreTokenizer()


@pytest.mark.parametrize("tokenizer", [BYTES, LOWERED], ids=["bytes", "bert"])
@given(text=st.text(max_size=40))
def test_any_text_has_words_in_order_that_hold_all_its_tokens(tokenizer: Tokenizer, text: str) -> None:
    tokens = tokenizer.encode(text, add_special_tokens=False).offsets
    words, owners = words_of(text, tokens)
    assert len(owners) == len(tokens) and set(owners) == set(range(len(words)))
    assert all(one[1] <= two[0] for one, two in pairwise(words))
    for (start, end), owner in zip(tokens, owners, strict=True):
        piece = text[start:end]
        left, right = words[owner]
        assert piece.strip() in text[left:right] and left < max(end, 1) and start <= right
