"""GradientSum: gradients lie in one memory for all steps, and are summed after the step's first part is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from palbert.errors import TrainingError
from palbert.gradients.exchange import GradientSum
from palbert.runtime.distributed import Ranks


@dataclass(frozen=True)
class Twin(Ranks):
    """Two processes, of which the other has the same gradients, and those of some parameters in addition."""

    also: Sequence[int] = ()
    summed: list[int] = field(default_factory=list)

    @property
    def communicate(self) -> bool:
        return True

    def count(self, *numbers: int) -> list[int]:
        return [2 * number + (place in self.also) for place, number in enumerate(numbers)]

    def add_in_place(self, *tensors: Tensor) -> None:
        self.summed.extend(tensor.numel() for tensor in tensors)
        for tensor in tensors:
            tensor.mul_(2)


def parameters() -> list[Tensor]:
    return [torch.zeros(shape, requires_grad=True) for shape in ((2,), (3, 2), (), (4,))]


def give(gradients: dict[int, float], to: list[Tensor]) -> None:
    for place, parameter in enumerate(to):
        parameter.grad = torch.full_like(parameter, gradients[place]) if place in gradients else None


def found(some: list[Tensor]) -> list[float | None]:
    return [None if each.grad is None else float(each.grad.mean()) for each in some]


def test_one_process_has_nothing_to_sum() -> None:
    assert GradientSum.over(Ranks(), parameters()) is None


def test_gradients_are_summed_when_the_returned_function_is_called() -> None:
    some = parameters()
    give({0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}, some)
    sum_gradients = GradientSum(Twin(), some).collect()
    assert found(some) == [1.0, 2.0, 3.0, 4.0]
    sum_gradients()
    assert found(some) == [2.0, 4.0, 6.0, 8.0]
    assert [each.grad.shape for each in some if each.grad is not None] == [each.shape for each in some]


def test_every_step_uses_the_same_memory_and_a_repeated_sum_takes_its_new_values() -> None:
    some = parameters()
    gradients = GradientSum(Twin(), some)
    assert gradients.held == []
    give({0: 1.0, 3: 1.0}, some)
    first_sum = gradients.collect()
    places = [each.grad.data_ptr() for each in some if each.grad is not None]
    [memory] = gradients.held
    assert memory.numel() == 13
    first_sum()
    give({0: 5.0, 3: 6.0}, some)
    gradients.collect()
    assert [each.grad.data_ptr() for each in some if each.grad is not None] == places
    first_sum()  # as between the graphs of a step that is replayed
    assert found(some) == [10.0, None, None, 12.0]


def test_only_gradients_that_some_process_has_are_sent_in_as_few_pieces_as_possible() -> None:
    some, ranks = parameters(), Twin()
    give({0: 1.0, 1: 1.0, 3: 1.0}, some)
    GradientSum(ranks, some).collect()()
    assert ranks.summed == [8, 4]
    assert found(some) == [2.0, 2.0, None, 2.0]


def test_a_gradient_that_only_another_process_has_counts_as_0_here() -> None:
    some, ranks = parameters(), Twin(also=[2])
    gradients = GradientSum(ranks, some)
    give({0: 1.0, 2: 7.0}, some)
    gradients.collect()  # leaves a value in the memory of the third
    give({0: 1.0}, some)
    gradients.collect()()
    assert found(some) == [2.0, None, 0.0, None]


def test_memory_is_kept_per_type() -> None:
    some = [torch.zeros(2, requires_grad=True), torch.zeros(3, dtype=torch.float64, requires_grad=True)]
    give({0: 1.0, 1: 2.0}, some)
    gradients = GradientSum(Twin(), some)
    gradients.collect()()
    assert found(some) == [2.0, 4.0]
    assert [each.dtype for each in gradients.held] == [torch.float32, torch.float64]


def test_processes_that_come_to_train_other_parameters_in_a_captured_step_are_an_error() -> None:
    some, also = parameters(), [1]
    give({0: 1.0}, some)
    sum_gradients = GradientSum(Twin(also=also), some).collect()
    sum_gradients()
    also.append(2)
    with pytest.raises(TrainingError, match="differ in the parameters"):
        sum_gradients()
