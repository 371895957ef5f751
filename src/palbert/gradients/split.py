"""SplitGradients: one gradient per task, all from one backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from palbert.gradients.kept import KeptGradients
from palbert.gradients.weighting import Weighting
from palbert.model.split import GradientSplitter


@dataclass(frozen=True)
class Trunk:
    """The parameters whose gradients one backward pass over a batch of all tasks can give per task."""

    shared: Sequence[Tensor]
    """Parameters that all tasks share, used only by functions that split their gradients."""
    own: Sequence[Tensor]
    """Parameters at the same depth that belong to one task each, such as adapters."""
    large: Sequence[Tensor] = ()
    """Large shared parameters: the factors of their gradients are kept; only with a single process."""


class SplitGradients(KeptGradients):
    """Hold the gradients of all tasks of a step; those of a batch come from one backward pass through the trunk.

    Args:
        weights: λ of each task.
        parameters: All trained parameters.
        weighting: Computes the weights from the Gram matrix.
        trunk: The parameters with gradients that can be split.
        most_tasks: Maximum number of tasks in a step; all by default.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        parameters: Sequence[Tensor],
        weighting: Weighting,
        trunk: Trunk,
        most_tasks: int | None = None,
    ) -> None:
        super().__init__(
            weights,
            parameters=parameters,
            weighting=weighting,
            most_tasks=most_tasks,
            elsewhere=[*trunk.own, *trunk.large],
        )
        self.trunk = trunk
        self.splitter = GradientSplitter(self.kept, trunk.large)
        self.stores = [self.kept, self.splitter.large]
        self.factors = self.splitter.factors
        self.own = list(trunk.own)
        deep = {id(parameter) for parameter in (*trunk.own, *trunk.shared)}
        self.above = [parameter for parameter in self.parameters if id(parameter) not in deep]

    @property
    def separate(self) -> bool:
        """All tasks may come in one batch."""
        return False

    def forward_context(self) -> AbstractContextManager[None]:
        """Return the context in which gradients of losses are split."""
        return self.splitter.splitting()

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take each task's gradient above the trunk, and all gradients of the trunk at once."""
        losses = self.scaled(losses)
        for task, loss in losses.items():
            if self.above:  # autograd stops at the top of the trunk
                self._take(task, loss, self.above, retain_graph=True)
            self.kept.row(task)
        inputs = [*self.trunk.shared, *self.trunk.own]
        if inputs:
            with self.splitter.collecting():
                torch.stack(list(losses.values())).sum().backward(inputs=inputs)  # type: ignore[no-untyped-call]
        assert all(parameter.grad is None for parameter in self.trunk.shared), "not all uses are split"
