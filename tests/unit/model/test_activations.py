"""Activations: each name means the function that transformers means by it."""

from __future__ import annotations

import pytest
import torch
from transformers.activations import ACT2FN

from palbert.model.activations import ACTIVATIONS

VALUES = torch.linspace(-6, 6, 1001, dtype=torch.float64)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_equals_that_of_transformers(name: str) -> None:
    torch.testing.assert_close(ACTIVATIONS[name](VALUES), ACT2FN[name](VALUES))


def test_the_exact_and_the_approximated_gelu_differ() -> None:
    difference = (ACTIVATIONS["gelu"](VALUES) - ACTIVATIONS["gelu_new"](VALUES)).abs().max()
    assert 1e-5 < difference < 1e-2
