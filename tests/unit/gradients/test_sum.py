"""Sum: the gradient of the weighted sum of losses."""

from __future__ import annotations

import pytest
import torch

from palbert.gradients.sum import Sum


def losses(parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"a": (parameter**2).sum(), "b": (3 * parameter).sum(), "c": parameter.exp().sum()}


@pytest.fixture
def parameter() -> torch.Tensor:
    return torch.tensor([1.0, -2.0, 0.5], requires_grad=True)


@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 0.5, "b": 0.0, "c": 2.0}])
def test_sum_is_the_gradient_of_the_weighted_sum(parameter: torch.Tensor, weights: dict[str, float]) -> None:
    method = Sum(weights)
    method.backward(losses(parameter))
    method.combine()
    values = parameter.detach()
    expected = weights["a"] * 2 * values + weights["b"] * 3 + weights["c"] * values.exp()
    assert parameter.grad is not None
    torch.testing.assert_close(parameter.grad, expected)


def test_several_batches_add_up(parameter: torch.Tensor) -> None:
    weights = {"a": 2.0, "b": 1.0, "c": 0.5}
    one, other = Sum(weights), parameter.detach().clone().requires_grad_()
    one.backward(losses(parameter))
    several = Sum(weights)
    for name in ("a", "b", "c"):
        several.backward({name: losses(other)[name]})
    several.combine()
    assert parameter.grad is not None
    assert other.grad is not None
    torch.testing.assert_close(parameter.grad, other.grad)


def test_a_task_that_is_not_in_the_step_adds_nothing(parameter: torch.Tensor) -> None:
    Sum({"a": 1.0, "b": 5.0}).backward({"a": losses(parameter)["a"]})
    assert parameter.grad is not None
    torch.testing.assert_close(parameter.grad, 2 * parameter.detach())


def test_a_sum_reports_no_observations(parameter: torch.Tensor) -> None:
    method = Sum({"a": 1.0})
    method.backward({"a": losses(parameter)["a"]})
    method.combine()
    assert method.observations() == {}
