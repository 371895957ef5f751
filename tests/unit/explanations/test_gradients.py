"""Gradients: completeness, packed steps equal single ones, and steps are doubled until the scores add up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import palbert
from palbert.errors import PalbertError
from palbert.explanations import explained as explained_module
from palbert.explanations.explained import Explained
from palbert.explanations.gradients import (
    completeness_error,
    embeddings_of,
    gradient_input,
    integrated_gradients,
    replaced_words,
)
from palbert.explanations.row import SPECIAL, Row

Smooth = Callable[[str], Explained]
CASES = [
    ("sst", ("The plot is dull .",)),
    ("tone", ("rain and soup",)),
    ("grade", ("never",)),
    ("quora", ("the guitar", "Rain and soup .")),
    ("sts", ("a man plays the guitar", "rain")),
]


@pytest.mark.parametrize(("name", "texts"), CASES)
def test_scores_add_up_to_the_difference_from_the_baseline(
    model: palbert.Predictor, smooth: Smooth, name: str, texts: tuple[str, ...]
) -> None:
    row, number = Row.of(model.task(name), texts, model.tokenizer), smooth(name)
    found = integrated_gradients(number, row, replaced_words(number, row, 4))
    assert found.output == pytest.approx(number.values(row.copies(1))[0], abs=1e-5)
    assert found.baseline == pytest.approx(number.values(row.masked([range(len(row.words))], 4))[0], abs=1e-5)
    assert found.scores.sum() == pytest.approx(found.output - found.baseline, rel=0.011, abs=1e-4)
    assert found.error is not None and found.error <= 0.01
    assert not found.scores[row.word_of == SPECIAL].any()  # special tokens stay what they are


@pytest.mark.parametrize(("name", "texts"), CASES)
def test_packed_steps_equal_single_ones(
    model: palbert.Predictor, smooth: Smooth, name: str, texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    row, number = Row.of(model.task(name), texts, model.tokenizer), smooth(name)
    baseline = replaced_words(number, row, 4)
    packed = integrated_gradients(number, row, baseline, most_steps=32)
    monkeypatch.setattr(explained_module, "TOKENS", {"cpu": 1})
    single = integrated_gradients(number, row, baseline, most_steps=32)
    np.testing.assert_allclose(packed.scores, single.scores, atol=1e-6)
    assert packed.steps == single.steps


def test_all_steps_of_a_text_are_one_batch(
    model: palbert.Predictor, smooth: Smooth, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, number = Row.of(model.task("sst"), ("the plot is dull",), model.tokenizer), smooth("sst")
    baseline, batches, forward = replaced_words(number, row, 4), [], Explained.__call__

    def counted(self: Explained, batch: palbert.batch.PackedBatch, **options: torch.Tensor) -> torch.Tensor:
        batches.append(batch.sequences)
        return forward(self, batch, **options)

    monkeypatch.setattr(Explained, "__call__", counted)
    integrated_gradients(number, row, baseline, first_steps=32, most_steps=32)
    assert batches == [34]  # the steps, the text and the baseline


def test_a_linear_model_gets_its_products(model: palbert.Predictor, smooth: Smooth) -> None:
    """Of Σ w · (embedding), every method that follows gradients gives w · (x − b), exactly, with any steps."""
    row, number = Row.of(model.task("sst"), ("the plot is dull",), model.tokenizer), smooth("sst")
    weight = torch.randn(32, generator=torch.Generator().manual_seed(0))

    class Linear(Explained):
        def __call__(self, batch: palbert.batch.PackedBatch, *, embeddings: torch.Tensor | None = None) -> torch.Tensor:
            assert embeddings is not None
            return (embeddings @ weight).view(batch.sequences, -1).sum(1)

    linear = Linear(number.model, number.number, number.device)
    baseline = replaced_words(linear, row, 4)
    expected = ((embeddings_of(linear, row) - baseline) @ weight).numpy()
    found = integrated_gradients(linear, row, baseline, first_steps=1)
    assert found.steps == 1
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)
    np.testing.assert_allclose(gradient_input(linear, row, baseline).scores, expected, atol=1e-5)


def test_steps_are_doubled_until_the_scores_add_up(model: palbert.Predictor, smooth: Smooth) -> None:
    row, number = Row.of(model.task("quora"), ("the guitar", "rain and soup"), model.tokenizer), smooth("quora")
    baseline = replaced_words(number, row, 4)
    rough = integrated_gradients(number, row, baseline, first_steps=1, most_steps=1)
    found = integrated_gradients(number, row, baseline, first_steps=1, tolerance=1e-4)
    assert rough.error is not None and found.error is not None and found.steps is not None
    assert rough.steps == 1 and rough.error > 1e-4 and found.error <= 1e-4
    assert found.steps > 1 and found.steps & (found.steps - 1) == 0
    never = integrated_gradients(number, row, baseline, first_steps=1, most_steps=4, tolerance=-1.0)
    assert never.steps == 4


def test_gradient_input_is_the_gradient_at_the_text(model: palbert.Predictor, smooth: Smooth) -> None:
    row, number = Row.of(model.task("sts"), ("the guitar", "rain"), model.tokenizer), smooth("sts")
    words = embeddings_of(number, row).requires_grad_()
    number(row.copies(1), embeddings=words).sum().backward()
    assert words.grad is not None
    baseline = replaced_words(number, row, 4)
    expected = (words.grad * (words.detach() - baseline)).sum(1).numpy()
    found = gradient_input(number, row, baseline)
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert (found.steps, found.error) == (None, None)


def test_special_tokens_have_scores_if_their_baseline_is_another(model: palbert.Predictor, smooth: Smooth) -> None:
    row, number = Row.of(model.task("sst"), ("rain and soup",), model.tokenizer), smooth("sst")
    found = integrated_gradients(number, row, torch.zeros_like(embeddings_of(number, row)))
    words, special = row.by_word(found.scores)
    assert abs(special) > 1e-4
    assert words.sum() + special == pytest.approx(found.output - found.baseline, rel=0.011)


@pytest.mark.parametrize(
    ("scores", "difference", "error"),
    [
        ([1.0, 1.0], 2.0, 0.0),
        ([1.0, 1.0], 4.0, 0.5),
        ([5.0, -5.0], 0.0, 0.0),
        ([5.0, -4.9], 0.0, 0.1 / 0.99),
        ([], 0.0, 0.0),
    ],
)
def test_the_error_is_a_share_of_the_difference_unless_that_is_near_0(
    scores: list[float], difference: float, error: float
) -> None:
    assert completeness_error(np.array(scores), difference) == pytest.approx(error)


def test_a_head_without_gradients_is_reported(model: palbert.Predictor, smooth: Smooth) -> None:
    row, number = Row.of(model.task("sst"), ("rain",), model.tokenizer), smooth("sst")
    cut = Explained(number.model, lambda outputs: outputs.detach()[:, 0], number.device)
    with pytest.raises(PalbertError, match=r"tasks\.sst: its outputs have no gradient"):
        gradient_input(cut, row, replaced_words(cut, row, 4))


def test_explaining_leaves_no_gradients_and_works_inside_inference_mode(
    model: palbert.Predictor, smooth: Smooth
) -> None:
    row, number = Row.of(model.task("sst"), ("rain",), model.tokenizer), smooth("sst")
    with torch.inference_mode():
        inside = integrated_gradients(number, row, replaced_words(number, row, 4))
    outside = integrated_gradients(number, row, replaced_words(number, row, 4))
    np.testing.assert_array_equal(inside.scores, outside.scores)
    assert not any(weight.requires_grad or weight.grad is not None for weight in number.model.parameters())
    assert not number.model.training
