"""Divergences: symmetric KL against scipy, squared error, and 0 for equal outputs."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from scipy.stats import entropy

from palbert.objectives.divergence import divergence
from palbert.tasks.choices import Target


def both(outputs: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(7, outputs)) * 3, generator.normal(size=(7, outputs)) * 3


def symmetric(p: np.ndarray, q: np.ndarray) -> float:
    return float((entropy(p, q, axis=1) + entropy(q, p, axis=1)).mean())


def measured(first: np.ndarray, second: np.ndarray, target: Target) -> float:
    return float(divergence(torch.from_numpy(first), torch.from_numpy(second), target=target))


def test_of_classes_equals_scipys_symmetric_kl() -> None:
    first, second = both(5)
    assert measured(first, second, "classes") == pytest.approx(symmetric(softmax(first, 1), softmax(second, 1)))


def test_of_yes_or_no_equals_scipys_symmetric_kl_over_two_classes() -> None:
    first, second = both(1)
    p, q = (np.hstack([expit(-z), expit(z)]) for z in (first, second))
    assert measured(first, second, "binary") == pytest.approx(symmetric(p, q))


def test_of_numbers_is_the_mean_squared_difference() -> None:
    first, second = both(1)
    assert measured(first, second, "number") == pytest.approx(((first - second) ** 2).mean())


@pytest.mark.parametrize("target", get_args(Target))
def test_is_exactly_0_for_equal_outputs_symmetric_and_finite(target: Target) -> None:
    first, second = (part * 100 for part in both(5 if target == "classes" else 1))
    assert measured(first, first, target) == 0.0
    assert 0 < measured(first, second, target) < np.inf
    assert measured(first, second, target) == pytest.approx(measured(second, first, target))
