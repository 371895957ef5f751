"""SharedGradients: the gradients that a step's tasks have for shared parameters, compared and summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palbert.model.factors import Factors
from palbert.model.kernels import has_triton

MOST_ROWS = 16
"""Rows that the kernels support: they hold a product for each pair."""
CHUNK = 2**14
"""Numbers of a row that are multiplied at once: sums of partial sums are more accurate than one long sum."""


@dataclass
class SharedGradients:
    """The gradients of shared parameters, one per task; all on the device, and nothing here waits for it."""

    tasks: list[str]
    """The tasks of the step, in the order of the rows."""
    blocks: Sequence[Tensor]
    """Gradients of shared parameters, one row per task, (tasks, numbers)."""
    factors: Factors
    """Gradients of other shared parameters, held as factors."""
    gram: Tensor
    """All ⟨g_i, g_j⟩ over the shared parameters, (tasks, tasks)."""
    weights: Tensor
    """The weight of each task's gradient, (tasks,); 1 until it is decided."""

    @classmethod
    def of(cls, tasks: Sequence[str], blocks: Sequence[Tensor], factors: Factors, weights: Tensor) -> SharedGradients:
        """Compute the Gram matrix; `weights` is memory for at least as many weights as there are tasks."""
        gram = weights.new_zeros(len(tasks), len(tasks))
        for block in blocks:
            gram += inner_products(block)
        factors.compare(gram)
        return cls(list(tasks), blocks, factors, gram, weights[: len(tasks)].fill_(1))

    @property
    def is_shared(self) -> bool:
        """Whether at least two of the tasks have a gradient for the same parameter."""
        return bool(self.blocks or self.factors)

    def combine(self) -> None:
        """Leave the weighted sum in the first row of each block, and in `.grad` of parameters held as factors."""
        for block in self.blocks:
            add_up(block, self.weights)
        self.factors.combine(self.weights)


def inner_products(block: Tensor) -> Tensor:
    """Return the inner products of all pairs of rows, (tasks, numbers) to (tasks, tasks)."""
    if _kernels_support(block):
        # Imported here because it needs Triton, which comes with torch for CUDA only.
        from palbert.model.kernels import rows

        return rows.inner_products(block)
    numbers = block.shape[1] // CHUNK * CHUNK
    chunks = block[:, :numbers].view(len(block), -1, CHUNK).transpose(0, 1)  # (chunks, tasks, CHUNK)
    rest = block[:, numbers:]
    return torch.bmm(chunks, chunks.transpose(1, 2)).sum(0) + rest @ rest.t()


def add_up(block: Tensor, weights: Tensor) -> None:
    """Replace the first row by the weighted sum of all rows, (tasks, numbers) and (tasks,)."""
    if _kernels_support(block):
        from palbert.model.kernels import rows

        rows.add_up(block, weights)
        return
    total, *others = block
    total.mul_(weights[0])
    for row, weight in zip(others, weights[1:], strict=True):
        total.addcmul_(row, weight)


def _kernels_support(block: Tensor) -> bool:
    return (
        block.is_cuda
        and block.dtype == torch.float32
        and len(block) <= MOST_ROWS
        and block.shape[1] < 2**31 - 2**16  # positions in a row are 32-bit numbers
        and has_triton()
    )
