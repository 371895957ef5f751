"""KeptGradients: one gradient per task, held until the step ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palbert.gradients.exchange import GradientSum
from palbert.gradients.shared import SharedGradients
from palbert.gradients.weighted import WeightedGradients
from palbert.gradients.weighting import Weighting
from palbert.model.factors import Factors
from palbert.model.task_gradients import TaskGradients
from palbert.runtime.distributed import Ranks
from palbert.runtime.replay import Decision


class KeptGradients(WeightedGradients):
    """Hold the gradients of all tasks of a step; each task has its own backward pass.

    Args:
        weights: λ of each task.
        parameters: All trained parameters.
        weighting: Computes the weights from the Gram matrix.
        most_tasks: Maximum number of tasks in a step: captured steps cannot allocate memory for more. All by default.
        elsewhere: Parameters whose gradients a subclass holds in another way.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        parameters: Sequence[Tensor],
        weighting: Weighting,
        most_tasks: int | None = None,
        elsewhere: Sequence[Tensor] = (),
    ) -> None:
        super().__init__(weights, parameters=parameters, weighting=weighting)
        excluded = {id(parameter) for parameter in elsewhere}
        included = [parameter for parameter in self.parameters if id(parameter) not in excluded]
        self.kept = TaskGradients(included, most=most_tasks or len(self.weights))
        self.stores = [self.kept]
        self.factors = Factors()
        self.own: list[Tensor] = []  # parameters whose gradients are in `.grad` already
        self._weights = torch.ones(0)  # of each task's gradient; its memory is kept from step to step
        self._shared: SharedGradients | None = None
        self._sum_of_own: GradientSum | None = None

    def join(self, ranks: Ranks) -> None:
        """Sum the gradients over several processes."""
        super().join(ranks)
        self._sum_of_own = GradientSum.over(ranks, self.own) if self.own else None

    @property
    def separate(self) -> bool:
        """Each task should come in its own batch: then T backward passes cost no more than one."""
        return True

    @property
    def held(self) -> list[Tensor]:
        """Tensors that stay allocated between steps."""
        own = self._sum_of_own.held if self._sum_of_own else []
        return [*(gradients.numbers for gradients in self.stores), self._weights, *own]

    def clear(self) -> None:
        """Forget the gradients of the step."""
        for gradients in self.stores:
            gradients.clear()
        self.factors.clear()
        self._shared = None

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take each task's gradient of one batch."""
        losses = self.scaled(losses)
        last = len(losses) - 1
        for number, (task, loss) in enumerate(losses.items()):
            self._take(task, loss, self.parameters, retain_graph=number < last)

    def exchange(self) -> Decision | None:
        """Sum each task's gradients over processes."""
        if not self.ranks.communicate:
            return None
        numbers = [gradients.numbers[: len(self.kept.tasks)] for gradients in self.stores]
        sum_own = self._sum_of_own.collect() if self._sum_of_own else None

        def sum_all() -> None:
            self.ranks.add_in_place(*(each for each in numbers if each.numel()))
            if sum_own:
                sum_own()

        return sum_all

    def compare(self) -> SharedGradients | None:
        """Compute the inner products of the kept gradients on the device; None if there are fewer than two tasks."""
        tasks = self.kept.tasks
        if not tasks:
            return None
        blocks: list[Tensor] = []
        for gradients in self.stores:
            holders = gradients.holders()
            blocks += gradients.blocks([place for place, rows in holders.items() if len(rows) > 1])
            for place, rows in holders.items():
                # A parameter of one task keeps its gradient; of a shared one, the first row will hold the sum.
                gradients.parameters[place].grad = gradients.view(place, rows[0] if len(rows) == 1 else 0)
        if len(self._weights) < len(tasks):
            self._weights = self.parameters[0].new_ones(max(self.kept.most, len(tasks)))
        self._shared = SharedGradients.of(tasks, blocks, self.factors, self._weights)
        return self._shared if len(tasks) > 1 else None

    def decide(self, shared: SharedGradients) -> None:
        """Compute the weights on the host, which waits for the device here and nowhere else in a step."""
        gram = shared.gram.cpu()
        shared.weights.copy_(self.weigh(shared.tasks, gram, shared=shared.is_shared))

    def combine(self) -> None:
        """Leave the weighted sum in `.grad`; compare and decide first where the caller has not."""
        if not self._shared:
            shared = self.compare()
            if shared:
                self.decide(shared)
        if self._shared:
            self._shared.combine()
        self.clear()

    def _take(self, task: str, loss: Tensor, parameters: Sequence[Tensor], *, retain_graph: bool) -> None:
        """Add the gradients of one loss to those of its task."""
        found = torch.autograd.grad(loss, parameters, retain_graph=retain_graph, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                self.kept.add(parameter, task, gradient)
