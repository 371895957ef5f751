"""Policies for steps whose loss or gradient is not finite: stop the run, or skip the step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palbert.objectives.objective import Objective
from palbert.training.averaging import Average, NoAverage

Losses = Mapping[str, Tensor]


class NonFinite(ABC):
    """What a step does on the device when one of its numbers is NaN or infinite; the host learns of it later."""

    most_in_a_row: int
    """Steps in a row with such numbers after which the run ends with an error."""

    def __init__(self) -> None:
        self.norm: Tensor | None = None  # of the last step's gradient; graphs write to the same memory in every step

    def before_step(self, optimizer: torch.optim.Optimizer, norm: Tensor, losses: Losses) -> None:
        """Keep the norm of the gradient, before the optimizer moves the weights."""
        if self.norm is None:
            self.norm = torch.zeros_like(norm)
        self.norm.copy_(norm)

    @abstractmethod
    def after_step(self, objective: Objective, model: Any, losses: Losses) -> None:
        """Let the objective update its state."""

    @abstractmethod
    def update_average(self, average: Average, step: int, total: int) -> None:
        """Include the weights after a step in their average."""


class Stop(NonFinite):
    """End the run at the first such step. The step itself is computed as any other."""

    most_in_a_row = 1

    def after_step(self, objective: Objective, model: Any, losses: Losses) -> None:
        """Let the objective update its state."""
        objective.after_step(model, losses)

    def update_average(self, average: Average, step: int, total: int) -> None:
        """Include the weights in their average."""
        average.update(step, total)


class Skip(NonFinite):
    """Leave out such steps: weights, optimizer, objective and average stay as they were.

    The device decides, as for the loss scale of fp16. The host waits for it only where weights are averaged.

    Args:
        most_in_a_row: Skipped steps in a row after which the run ends with an error.
    """

    def __init__(self, most_in_a_row: int = 10) -> None:
        super().__init__()
        self.most_in_a_row = most_in_a_row
        self.skipped: Tensor | None = None  # 1 if the last step was skipped, else 0

    def before_step(self, optimizer: torch.optim.Optimizer, norm: Tensor, losses: Losses) -> None:
        """Tell the optimizer whether to skip the step."""
        super().before_step(optimizer, norm, losses)
        numbers = torch.stack([norm, *(loss.to(norm) for loss in losses.values())])
        skipped = (~numbers.isfinite().all()).float()
        if self.skipped is None:
            self.skipped = torch.zeros_like(skipped)
        self.skipped.copy_(skipped)
        if optimizer.defaults["fused"]:
            overflow = getattr(optimizer, "found_inf", None)  # of the loss scale
            optimizer.found_inf = skipped if overflow is None else torch.maximum(skipped, overflow)  # type: ignore[attr-defined]
        elif bool(skipped):  # as on mps: a parameter without gradient is left alone
            optimizer.zero_grad()

    def after_step(self, objective: Objective, model: Any, losses: Losses) -> None:
        """Let the objective update its state, and undo that if the step was skipped."""
        assert self.skipped is not None, "before_step comes first"
        before = {name: value.clone() for name, value in objective.state_dict().items()}
        objective.after_step(model, losses)
        for name, value in objective.state_dict().items():
            value.copy_(torch.where(self.skipped.bool(), before[name], value))

    def update_average(self, average: Average, step: int, total: int) -> None:
        """Include the weights in their average, unless the step was skipped."""
        if not isinstance(average, NoAverage) and not bool(self.skipped):
            average.update(step, total)
