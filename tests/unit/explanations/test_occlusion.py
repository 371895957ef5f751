"""Occlusion: equal to masking by hand; interactions are 0 where words add up, and turn with the texts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import palbert
from palbert.explanations.explained import Explained
from palbert.explanations.occlusion import interactions, occlusion
from palbert.explanations.row import Row
from palbert.model.heads import Head

MASK = 4
PAIR = ("a man plays the guitar", "rain and soup")


def plain(model: palbert.Predictor, name: str) -> Explained:
    return model.explainer._plain(model.explainer._number(model.task(name), 0))


def by_hand(model: palbert.Predictor, name: str, texts: tuple[str, ...]) -> float:
    """Return the output for texts in which words are replaced by [MASK], as a user would write it."""
    columns = tuple(model.tokenizer([text]) for text in texts)
    outputs = model.inference.outputs(model.task(name), columns)
    return float(model.explainer._number(model.task(name), 0)(outputs)[0])


def masked(text: str, *places: int) -> str:
    return " ".join("[MASK]" if place in places else word for place, word in enumerate(text.split()))


@pytest.fixture
def model_with_mask(model: palbert.Predictor) -> palbert.Predictor:
    model.tokenizer.tokenizer.add_special_tokens(["[MASK]"])  # so that texts may hold it
    return model


@pytest.mark.parametrize(("name", "texts"), [("sst", PAIR[:1]), ("quora", PAIR), ("sts", PAIR)])
def test_occlusion_equals_masking_by_hand(
    model_with_mask: palbert.Predictor, name: str, texts: tuple[str, ...]
) -> None:
    model = model_with_mask
    row = Row.of(model.task(name), texts, model.tokenizer)
    scores, output, baseline = occlusion(plain(model, name), row, MASK)
    whole = by_hand(model, name, texts)
    assert output == pytest.approx(whole, abs=1e-5)
    assert baseline == pytest.approx(by_hand(model, name, tuple(masked(t, *range(9)) for t in texts)), abs=1e-5)
    expected = [
        whole - by_hand(model, name, tuple(masked(t, place) if t is text else t for t in texts))
        for text in texts
        for place in range(len(text.split()))
    ]
    assert scores.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["quora", "sts"])
def test_interactions_equal_masking_by_hand(model_with_mask: palbert.Predictor, name: str) -> None:
    model = model_with_mask
    found = interactions(plain(model, name), Row.of(model.task(name), PAIR, model.tokenizer), MASK)
    assert (found.first, found.second, found.left_out) == ((0, 1, 2, 3, 4), (5, 6, 7), 0)
    first, second = PAIR
    for i in range(5):
        for j in range(3):
            one, two = masked(first, i), masked(second, j)
            asked = [(first, second), (one, second), (first, two), (one, two)]
            whole, without_i, without_j, without_both = (by_hand(model, name, texts) for texts in asked)
            assert found.values[i][j] == pytest.approx(whole - without_i - without_j + without_both, abs=1e-5)


class Added(Head):
    """A head that adds up what it sees of two texts: no word of one matters to what a word of the other does."""

    vectors = 2

    def __init__(self, hidden_size: int, *, outputs: int, dropout: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(hidden_size, outputs)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]
        found: Tensor = self.layer(first) + self.layer(second.square())
        return found


def test_interactions_of_an_additive_model_are_0(model: palbert.Predictor) -> None:
    row = Row.of(model.task("sts"), PAIR, model.tokenizer)
    model.inference.model.heads["sts"] = Added(32, outputs=1, dropout=0.0)
    found = interactions(plain(model, "sts"), row, MASK)
    assert max(abs(value) for line in found.values for value in line) < 1e-5
    assert max(abs(occlusion(plain(model, "sts"), row, MASK)[0])) > 1e-3


def test_interactions_turn_with_the_texts(model: palbert.Predictor) -> None:
    """With a head that does not know which text is the first, the table of the swapped pair is the transposed one."""
    model.inference.model.heads["sts"].forward = lambda first, second: (first * second).sum(1, keepdim=True)  # type: ignore[method-assign]
    tables = []
    for texts in (PAIR, PAIR[::-1]):
        found = interactions(plain(model, "sts"), Row.of(model.task("sts"), texts, model.tokenizer), MASK)
        tables.append(torch.tensor(found.values))
    torch.testing.assert_close(tables[0], tables[1].T, atol=1e-5, rtol=0)
    assert tables[0].abs().max() > 1e-3


def test_of_many_words_those_that_change_most_are_kept_and_the_others_counted(model: palbert.Predictor) -> None:
    row = Row.of(model.task("quora"), PAIR, model.tokenizer)
    scores = occlusion(plain(model, "quora"), row, MASK)[0]
    found = interactions(plain(model, "quora"), row, MASK, most=2)
    assert found.left_out == 4 and len(found.values) == len(found.values[0]) == 2
    assert set(found.first) == set(sorted(range(5), key=lambda word: -abs(scores[word]))[:2])
    whole = interactions(plain(model, "quora"), row, MASK)
    for line, i in zip(found.values, found.first, strict=True):
        for value, j in zip(line, found.second, strict=True):
            assert value == pytest.approx(whole.values[i][j - 5], abs=1e-5)
