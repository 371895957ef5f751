"""Answers: what a head's outputs say, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax

from palbert.model.answers import decode


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_classes_are_the_softmax_and_its_highest(generator: torch.Generator) -> None:
    outputs = 10 * torch.randn(50, 5, generator=generator)
    answers = decode(outputs, target="classes")
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, softmax(outputs.double().numpy(), axis=1), rtol=1e-12)
    assert np.array_equal(answers.predicted, outputs.argmax(1).numpy())
    assert answers.predicted.dtype == np.int64


def test_binary_is_the_logistic_function_and_yes_above_one_half(generator: torch.Generator) -> None:
    outputs = 10 * torch.randn(50, 1, generator=generator)
    answers = decode(outputs, target="binary")
    yes = expit(outputs.double().numpy()[:, 0])
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, np.stack([1 - yes, yes], axis=1), rtol=1e-9, atol=1e-15)
    assert np.array_equal(answers.predicted, (outputs[:, 0] > 0).long().numpy())


def test_even_odds_are_no_yes() -> None:
    assert decode(torch.zeros(1, 1), target="binary").predicted.tolist() == [0]


def test_numbers_are_clipped_to_their_range() -> None:
    outputs = torch.tensor([[-3.0], [0.0], [2.5], [5.0], [9.0]])
    answers = decode(outputs, target="number", range=(0.0, 5.0))
    assert answers.predicted.tolist() == [0.0, 0.0, 2.5, 5.0, 5.0]
    assert answers.probabilities is None
    assert decode(outputs, target="number").predicted.tolist() == outputs[:, 0].tolist()


@pytest.mark.parametrize("target", ["classes", "binary", "number"])
def test_half_precision_is_read_in_double(target: str, generator: torch.Generator) -> None:
    outputs = torch.randn(4, 3 if target == "classes" else 1, generator=generator).bfloat16()
    answers = decode(outputs, target=target)  # type: ignore[arg-type]
    expected = decode(outputs.double(), target=target)  # type: ignore[arg-type]
    assert np.array_equal(answers.predicted, expected.predicted)


def test_one_row_stays_one_row() -> None:
    assert decode(torch.ones(1, 1), target="number").predicted.shape == (1,)
    assert decode(torch.ones(1, 1), target="binary").predicted.shape == (1,)
