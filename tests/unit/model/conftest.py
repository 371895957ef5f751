"""Fixtures of the tests of the model: a check that gradients of one pass can be split by task."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.model.split import GradientSplitter, begin_pass
from palbert.model.task_gradients import TaskGradients

SPANS = {"a": slice(0, 3), "b": slice(3, 8)}
TOKENS = 8


@pytest.fixture
def assert_splits() -> Callable[[nn.Module, Callable[[slice], Tensor]], None]:
    """Return a function that compares split gradients of a module with those of each task alone.

    It is given the module and how it maps some of 8 tokens, of which three belong to the first of two tasks.
    """

    def compare(module: nn.Module, compute: Callable[[slice], Tensor]) -> None:
        parts = {name: Part(name, slice(row, row + 1), span) for row, (name, span) in enumerate(SPANS.items())}
        zeros = torch.zeros(TOKENS, dtype=torch.long)
        starts = torch.tensor([0, 3, TOKENS], dtype=torch.int32)
        batch = PackedBatch(ids=zeros, positions=zeros, types=zeros, starts=starts, max_length=5, parts=parts)
        module.zero_grad()
        parameters = list(module.parameters())
        gradients = TaskGradients(parameters, most=2)
        split = GradientSplitter(gradients)
        with split.splitting(), begin_pass(batch):
            output = compute(slice(0, TOKENS))
        upstream = torch.randn_like(output)
        with split.collecting():
            output.backward(upstream)  # type: ignore[no-untyped-call]
        assert all(parameter.grad is None for parameter in parameters)
        for task, span in SPANS.items():
            module.zero_grad()
            compute(span).backward(upstream[span])  # type: ignore[no-untyped-call]
            for place, parameter in enumerate(parameters):
                torch.testing.assert_close(gradients.view(place, gradients.row(task)), parameter.grad)

    return compare
