"""Row: copies are packed as rows are, words have their places in the text, and cut words are not there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import palbert
from palbert.explanations.row import SPECIAL, Row

SINGLE, PAIR = ("The plot is dull .",), ("the guitar", "Rain and soup .")
CASES = [("sst", SINGLE), ("quora", PAIR), ("sts", PAIR)]


def row_of(model: palbert.Predictor, name: str, texts: tuple[str, ...]) -> Row:
    return Row.of(model.task(name), texts, model.tokenizer)


@pytest.mark.parametrize(("name", "texts"), CASES)
def test_words_are_exactly_what_the_offsets_say(model: palbert.Predictor, name: str, texts: tuple[str, ...]) -> None:
    row = row_of(model, name, texts)
    assert [word.text for word in row.words] == " ".join(texts).split()
    for word in row.words:
        assert texts[word.column][word.start : word.end] == word.text


@pytest.mark.parametrize("text", ["Ünï — çødé 🎸🔥 x", "नमस्ते 你好 مرحبا", "a\x00b \u200b c", "", "   ", "ﬁne İstanbul"])
def test_offsets_reproduce_the_words_of_any_text(model: palbert.Predictor, text: str) -> None:
    for name, texts in (("sst", (text,)), ("quora", (text, "rain")), ("sts", ("rain", text))):
        row = row_of(model, name, texts)
        assert all(texts[word.column][word.start : word.end] == word.text for word in row.words)
        assert sum(map(len, "".join(word.text for word in row.words).split())) <= sum(map(len, texts))


@pytest.mark.parametrize(("name", "texts"), CASES)
def test_special_tokens_belong_to_no_word(model: palbert.Predictor, name: str, texts: tuple[str, ...]) -> None:
    row = row_of(model, name, texts)
    ids = row.copies(1).ids.numpy()
    assert set(ids[row.word_of == SPECIAL]) == {2, 3}  # [CLS] and [SEP]
    words = ids[row.word_of != SPECIAL]
    assert words.tolist() == np.concatenate([model.tokenizer([text])[0] for text in texts]).tolist()


@pytest.mark.parametrize(("name", "texts"), CASES)
def test_the_order_finds_each_copy_in_a_batch(model: palbert.Predictor, name: str, texts: tuple[str, ...]) -> None:
    row = row_of(model, name, texts)
    alone, three = row.copies(1), row.copies(3)
    for copy in row.order(3):
        assert torch.equal(three.ids[torch.from_numpy(copy)], alone.ids)
        assert torch.equal(three.positions[torch.from_numpy(copy)], alone.positions)
    assert sorted(row.order(3).flatten().tolist()) == list(range(three.tokens))


@pytest.mark.parametrize(("name", "texts"), CASES)
def test_masking_replaces_the_tokens_of_words(model: palbert.Predictor, name: str, texts: tuple[str, ...]) -> None:
    row = row_of(model, name, texts)
    batch = row.masked([[], [1, 3], range(len(row.words))], 4)
    first, second, third = (batch.ids[torch.from_numpy(copy)].numpy() for copy in row.order(3))
    assert first.tolist() == row.copies(1).ids.tolist()
    assert ((second == 4) == np.isin(row.word_of, [1, 3])).all()
    assert ((third == 4) == (row.word_of != SPECIAL)).all()


def test_words_that_are_cut_off_are_not_there(model: palbert.Predictor) -> None:
    long = " ".join(["rain"] * 300)
    [most] = {task.max_length for task in model.tasks.values()}
    assert len(row_of(model, "sst", (long,)).words) == most - 2
    pair = row_of(model, "quora", ("the guitar", long))
    assert [word.column for word in pair.words] == [0, 0, *[1] * (most - 5)]


def test_scores_of_tokens_are_added_up_by_word_and_special_ones_apart(model: palbert.Predictor) -> None:
    row = row_of(model, "quora", PAIR)
    scores = np.arange(row.tokens, dtype=np.float64)
    words, special = row.by_word(scores)
    assert words.tolist() == scores[row.word_of != SPECIAL].tolist()  # a token per word here
    assert words.sum() + special == scores.sum()
