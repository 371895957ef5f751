"""Padded attention: its gradients, written by hand, are those of numerical differentiation."""

from __future__ import annotations

import pytest
import torch

from palbert.model.attention import Sequences
from palbert.model.attention.padded import attend_padded


def sequences_of(lengths: list[int], *, bias: torch.Tensor | None = None, window: int = 0) -> Sequences:
    starts = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    return Sequences(starts=starts, tokens=sum(lengths), max_length=max(lengths), bias=bias).within(window)


@pytest.mark.parametrize("window", [0, 1], ids=["full", "window"])
@pytest.mark.parametrize("lengths", [[3], [2, 4, 1], [3, 3]], ids=str)
def test_gradients_equal_numerical_differentiation(lengths: list[int], window: int) -> None:
    torch.manual_seed(0)
    sequences = sequences_of(lengths, window=window)
    inputs = torch.randn(sum(lengths), 3, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values: attend_padded(values, sequences, 0.0, 0.5), (inputs,))


def test_the_gradient_of_a_bias_equals_numerical_differentiation() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(5, 3, 2, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)  # distances −2 … 2 of two heads

    def attend(values: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        return attend_padded(values, sequences_of([3, 2], bias=distances), 0.0, 0.5)

    assert torch.autograd.gradcheck(attend, (inputs, bias))


def test_dropout_keeps_the_mean_and_uses_the_same_mask_in_backward() -> None:
    torch.manual_seed(0)
    sequences = sequences_of([1])
    values = torch.ones(1, 3, 4000, 1, dtype=torch.float64, requires_grad=True)
    mixed = attend_padded(values, sequences, 0.25, 1.0)  # one token attends to itself: only dropout is left
    assert mixed.unique().tolist() == pytest.approx([0, 4 / 3])
    assert mixed.mean().item() == pytest.approx(1, abs=0.05)
    mixed.sum().backward()
    assert values.grad is not None and torch.equal(values.grad[:, 2], mixed.detach())


def test_a_token_does_not_see_other_sequences() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(7, 3, 2, 3)
    changed = inputs.clone()
    changed[4:] += 1.0
    sequences = sequences_of([4, 3])
    first, second = (attend_padded(values, sequences, 0.0, 0.5) for values in (inputs, changed))
    assert torch.equal(first[:4], second[:4]) and not torch.equal(first[4:], second[4:])
