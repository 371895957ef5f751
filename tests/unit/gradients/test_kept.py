"""KeptGradients: the same update however the losses of a step are divided into batches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from palbert.gradients import Weighting
from palbert.gradients.kept import KeptGradients
from palbert.registry import GRADIENTS

pytest.importorskip("torchjd")

METHODS = sorted(set(GRADIENTS) - {"sum"})


class Twice(Weighting):
    """Count the first task twice."""

    def __call__(self, gram: torch.Tensor) -> torch.Tensor:
        weights = torch.ones(len(gram))
        weights[0] = 2
        return weights


def two_tasks() -> tuple[nn.Parameter, nn.Parameter, KeptGradients]:
    """Make a vector that two tasks share, one of the second task, and a method over them."""
    shared, own = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([3.0]))
    return shared, own, KeptGradients({"a": 1.0, "b": 10.0}, parameters=[shared, own], weighting=Twice())


def losses_of(shared: torch.Tensor, own: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"a": shared.sum(), "b": (shared * own).sum()}


@pytest.mark.parametrize("pieces", [2, 3, 5])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_in_pieces_equals_the_step_in_one_batch(model: Any, update: Any, name: str, pieces: int) -> None:
    whole, _ = update(model, name)
    edges = [round(12 * number / pieces) for number in range(pieces + 1)]
    cut, _ = update(model, name, *(model.losses(slice(*pair)) for pair in pairwise(edges)))
    for key, value in whole.items():
        torch.testing.assert_close(value, cut[key], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_one_batch_per_task_in_any_order_equals_one_batch_of_all_tasks(model: Any, update: Any, name: str) -> None:
    together, _ = update(model, name)
    apart, _ = update(model, name, *({task: model.losses()[task]} for task in "cab"))
    for key, value in together.items():
        torch.testing.assert_close(value, apart[key], rtol=1e-4, atol=1e-5)


def test_only_shared_gradients_are_weighted() -> None:
    shared, own, method = two_tasks()
    method.backward(losses_of(shared, own))
    method.combine()
    assert shared.grad is not None and own.grad is not None
    assert shared.grad.tolist() == [2 * 1 + 10 * 3, 2 * 1 + 10 * 3]
    assert own.grad.tolist() == [10 * 3]


def test_the_caller_may_decide_between_comparing_and_combining() -> None:
    shared, own, method = two_tasks()
    method.backward(losses_of(shared, own))
    question = method.compare()
    assert question is not None and question.tasks == ["a", "b"]
    torch.testing.assert_close(question.gram, torch.tensor([[2.0, 60.0], [60.0, 1800.0]]))
    method.decide(question)
    assert question.weights.tolist() == [2, 1]
    method.combine()
    assert shared.grad is not None and shared.grad.tolist() == [32, 32]


def test_a_step_of_one_task_needs_no_decision() -> None:
    shared, own, method = two_tasks()
    assert method.compare() is None
    method.backward({"b": losses_of(shared, own)["b"]})
    assert method.compare() is None
    method.combine()
    assert shared.grad is not None and shared.grad.tolist() == [30, 30]


def test_memory_is_reused_between_steps_and_starts_empty() -> None:
    shared, own, method = two_tasks()
    for _ in range(2):
        method.backward(losses_of(shared, own))
        method.combine()
        assert shared.grad is not None and shared.grad.tolist() == [32, 32], "nothing of the step before is added"
        addresses = [tensor.data_ptr() for tensor in method.held]
    method.backward(losses_of(shared, own))
    method.combine()
    assert [tensor.data_ptr() for tensor in method.held] == addresses


def test_clearing_forgets_a_step_that_was_interrupted() -> None:
    shared, own, method = two_tasks()
    method.backward(losses_of(shared, own))
    method.compare()
    method.clear()
    method.backward(losses_of(shared, own))
    method.combine()
    assert shared.grad is not None and shared.grad.tolist() == [32, 32]


def test_each_task_comes_in_its_own_batch() -> None:
    assert two_tasks()[2].separate
