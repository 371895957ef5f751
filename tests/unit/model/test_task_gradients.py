"""TaskGradients: sums per task and parameter, in memory that steps share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from palbert.model.task_gradients import ALIGNMENT, TaskGradients


@pytest.fixture
def parameters() -> list[Tensor]:
    """Make a matrix, a vector and a number."""
    return [nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(()))]


def test_gradients_add_up_by_task_and_parameter(parameters: list[Tensor]) -> None:
    gradients = TaskGradients(parameters, most=2)
    matrix, vector, number = parameters
    gradients.add(matrix, "a", torch.ones(3, 2))
    gradients.add(matrix, "a", torch.ones(3, 2))
    gradients.add(vector, "b", torch.arange(4.0))
    gradients.add(number, "b", torch.tensor(7.0))
    assert gradients.tasks == ["a", "b"]
    assert torch.equal(gradients.view(0, 0), torch.full((3, 2), 2.0))
    assert torch.equal(gradients.view(1, 1), torch.arange(4.0))
    assert gradients.view(2, 1).item() == 7
    assert gradients.holders() == {0: [0], 1: [1], 2: [1]}


def test_products_add_up_like_gradients(parameters: list[Tensor]) -> None:
    gradients = TaskGradients(parameters, most=1)
    left, right = torch.randn(3, 5), torch.randn(5, 2)
    for _ in range(2):
        gradients.add_product(parameters[0], "a", left, right)
    torch.testing.assert_close(gradients.view(0, 0), 2 * left @ right)


def test_a_gradient_added_for_all_tasks_is_added_to_each(parameters: list[Tensor]) -> None:
    gradients = TaskGradients(parameters, most=2)
    matrix, vector, _ = parameters
    gradients.add(vector, "a", torch.ones(4))
    gradients.row("b")
    gradients.add_all(vector, torch.tensor([[1.0] * 4, [5.0] * 4]))
    lefts, rights = torch.randn(2, 3, 6), torch.randn(2, 6, 2)
    gradients.add_all_products(matrix, lefts, rights)
    assert gradients.view(1, 0).tolist() == [2] * 4 and gradients.view(1, 1).tolist() == [5] * 4
    for row in (0, 1):
        torch.testing.assert_close(gradients.view(0, row), lefts[row] @ rights[row])


def test_a_new_step_overwrites_the_previous_one_in_the_same_memory(parameters: list[Tensor]) -> None:
    gradients = TaskGradients(parameters, most=2)
    for task in "ab":
        gradients.add(parameters[1], task, torch.full((4,), 9.0))
    memory = gradients.numbers
    gradients.clear()
    assert gradients.tasks == [] and gradients.holders() == {}
    gradients.add(parameters[1], "b", torch.ones(4))
    assert gradients.numbers is memory
    assert gradients.tasks == ["b"] and gradients.view(1, 0).tolist() == [1] * 4
    gradients.row("a")
    [block] = gradients.blocks([1])
    assert block.tolist() == [[1] * 4, [0] * 4], "a missing gradient is 0, whatever was there before"


def test_blocks_join_neighbouring_parameters(parameters: list[Tensor]) -> None:
    gradients = TaskGradients(parameters, most=1)
    for parameter in parameters:
        gradients.add(parameter, "a", torch.ones(parameter.shape))
    assert [block.shape for block in gradients.blocks([0, 1])] == [(1, 10)]
    assert [block.shape for block in gradients.blocks([0, 2])] == [(1, 6), (1, 1)]


def test_rows_are_aligned_and_grow_if_there_are_more_tasks_than_announced(parameters: list[Tensor]) -> None:
    gradients = TaskGradients(parameters, most=1)
    assert gradients.numbers.numel() == 0, "nothing is allocated before it is needed"
    gradients.add(parameters[1], "a", torch.ones(4))
    assert gradients.numbers.shape == (1, ALIGNMENT)
    gradients.add(parameters[1], "b", torch.full((4,), 2.0))
    assert gradients.numbers.shape == (2, ALIGNMENT)
    assert gradients.view(1, 0).tolist() == [1] * 4 and gradients.view(1, 1).tolist() == [2] * 4


def test_membership_and_presence_of_gradients_are_reported(parameters: list[Tensor]) -> None:
    gradients = TaskGradients(parameters[:2], most=1)
    assert parameters[0] in gradients and parameters[2] not in gradients
    assert not gradients.has(parameters[0])
    gradients.add(parameters[0], "a", torch.ones(3, 2))
    assert gradients.has(parameters[0]) and not gradients.has(parameters[1])
