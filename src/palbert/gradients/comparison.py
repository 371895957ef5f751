"""Comparison: the inner products of the gradients of a step's tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palbert.model.factors import Factors
from palbert.model.kernels import has_triton

MOST_ROWS = 16
"""Rows that the kernels take: they hold a product for each pair."""
CHUNK = 2**14
"""Numbers of a row that are multiplied at once: sums of sums lose less than one long sum."""


@dataclass
class Comparison:
    """What is known of several tasks' gradients; all on the device, and nothing here waits for it."""

    tasks: list[str]
    """The tasks of the step, in the order of the rows."""
    blocks: Sequence[Tensor]
    """Each task's gradient of shared parameters, (tasks, numbers): of those that at least two of the tasks move."""
    factors: Factors
    """The gradients of the other shared parameters."""
    matrix: Tensor
    """All ⟨g_i, g_j⟩ over the shared parameters, (tasks, tasks)."""
    weights: Tensor
    """What each task counts for, (tasks,); 1 until it is decided."""

    @classmethod
    def of(cls, tasks: Sequence[str], blocks: Sequence[Tensor], factors: Factors, weights: Tensor) -> Comparison:
        """Compare gradients; the weights are numbers that will be kept until the next step."""
        matrix = weights.new_zeros(len(tasks), len(tasks))
        for block in blocks:
            matrix += inner_products(block)
        factors.compare(matrix)
        return cls(list(tasks), blocks, factors, matrix, weights[: len(tasks)].fill_(1))

    @property
    def is_shared(self) -> bool:
        """Whether there is a parameter that at least two of the tasks have a gradient for."""
        return bool(self.blocks or self.factors)

    def combine(self) -> None:
        """Leave the weighted sum in the first row, and in the parameters that have factors."""
        for block in self.blocks:
            add_up(block, self.weights)
        self.factors.combine(self.weights)


def inner_products(block: Tensor) -> Tensor:
    """Return all inner products of some rows, (tasks, numbers) to (tasks, tasks): a kernel on CUDA, or torch's own."""
    if _kernels_take(block):
        # Imported here: it needs Triton, which comes with torch for CUDA only.
        from palbert.model.kernels import rows

        return rows.inner_products(block)
    numbers = block.shape[1] // CHUNK * CHUNK
    chunks = block[:, :numbers].view(len(block), -1, CHUNK).transpose(0, 1)  # (chunks, tasks, CHUNK)
    rest = block[:, numbers:]
    return torch.bmm(chunks, chunks.transpose(1, 2)).sum(0) + rest @ rest.t()


def add_up(block: Tensor, weights: Tensor) -> None:
    """Replace the first of some rows by their weighted sum, (tasks, numbers) and (tasks,)."""
    if _kernels_take(block):
        from palbert.model.kernels import rows

        rows.add_up(block, weights)
        return
    total, *others = block
    total.mul_(weights[0])
    for row, weight in zip(others, weights[1:], strict=True):
        total.addcmul_(row, weight)


def _kernels_take(block: Tensor) -> bool:
    return (
        block.is_cuda
        and block.dtype == torch.float32
        and len(block) <= MOST_ROWS
        and block.shape[1] < 2**31 - 2**16  # places in a row are 32-bit numbers
        and has_triton()
    )
