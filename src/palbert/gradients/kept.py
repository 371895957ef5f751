"""Kept: one gradient a task, held until the step ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from palbert.gradients.comparison import Comparison
from palbert.gradients.memory import Memory, Weigh
from palbert.model.factors import Factors
from palbert.model.split import Rows, Split


class Kept(Memory):
    """Hold the gradients of all tasks of a step; each has a backward pass of its own."""

    def __init__(self, parameters: Sequence[Tensor], *, weigh: Weigh) -> None:
        super().__init__(parameters, weigh=weigh)
        self.rows = Rows(self.parameters, most=1)
        self.all_rows = [self.rows]
        self.factors = Factors()
        self.own: list[Tensor] = []  # their gradients are in `.grad` already
        self._counts = torch.ones(0)  # what each task counts for, kept from step to step
        self._comparison: Comparison | None = None

    def expect(self, tasks: int) -> None:
        """Make room for so many tasks at once: steps that are captured cannot make more."""
        self.rows.most = tasks

    @property
    def separate(self) -> bool:
        """Each task should come in a batch of its own: then T backward passes cost no more than one."""
        return True

    @property
    def held(self) -> list[Tensor]:
        """The memory that stays for the gradients of the next step."""
        return [*(rows.numbers for rows in self.all_rows), self._counts]

    def clear(self) -> None:
        """Forget the gradients of a step."""
        for rows in self.all_rows:
            rows.clear()
        self.factors.clear()
        self._comparison = None

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take each task's gradient of one batch."""
        last = len(losses) - 1
        for number, (task, loss) in enumerate(losses.items()):
            self._take(task, loss, self.parameters, again=number < last)

    def _take(self, task: str, loss: Tensor, parameters: Sequence[Tensor], *, again: bool) -> None:
        found = torch.autograd.grad(loss, parameters, retain_graph=again, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                self.rows.add(parameter, task, gradient)

    def compare(self) -> Comparison | None:
        """Take the inner products of the kept gradients, on the device; None where there is nothing to weigh."""
        tasks = self.rows.tasks
        if not tasks:
            return None
        blocks: list[Tensor] = []
        for rows in self.all_rows:
            holders = rows.holders()
            blocks += rows.blocks([place for place, found in holders.items() if len(found) > 1])
            self.ranks.add_in_place(rows.numbers[: len(tasks)])
            for place, found in holders.items():
                # What one task alone moves keeps its gradient; of the others, the first row will hold the sum.
                rows.parameters[place].grad = rows.view(place, found[0] if len(found) == 1 else 0)
        if self.own:
            self.ranks.sum_in_place(self.own)
        if len(self._counts) < len(tasks):
            self._counts = self.parameters[0].new_ones(max(self.rows.most, len(tasks)))
        self._comparison = Comparison.of(tasks, blocks, self.factors, self._counts)
        return self._comparison if len(tasks) > 1 else None

    def decide(self, comparison: Comparison) -> None:
        """Have the tasks weighed: the one time a step that the host waits for the device."""
        matrix = comparison.matrix.cpu()
        comparison.weights.copy_(self.weigh(comparison.tasks, matrix, shared=comparison.is_shared))

    def combine(self) -> None:
        """Leave the weighted sum; compare and decide, where nobody has."""
        if not self._comparison:
            comparison = self.compare()
            if comparison:
                self.decide(comparison)
        if self._comparison:
            self._comparison.combine()
        self.clear()


class KeptInOnePass(Kept):
    """Hold the gradients of all tasks of a step; those of a batch come from one backward pass.

    Args:
        kept: What held gradients so far.
        trunk: What all tasks share below everything else, used by functions that split its gradients.
        own: What lies as deep and belongs to one task each, such as adapters.
        large: What of the trunk is so large that the factors of its gradients are kept.
    """

    def __init__(
        self, kept: Kept, *, trunk: Sequence[Tensor], own: Sequence[Tensor], large: Sequence[Tensor] = ()
    ) -> None:
        super().__init__(kept.parameters, weigh=kept.weigh)
        self.join(kept.ranks)
        large = large if self.ranks.size == 1 else ()  # factors of several processes cannot be added up
        apart = {id(parameter) for parameter in (*own, *large)}
        self.rows = Rows([each for each in self.parameters if id(each) not in apart], most=kept.rows.most)
        self.split = Split(self.rows, large)
        self.all_rows, self.factors = [self.rows, self.split.large], self.split.factors
        self.trunk, self.own = list(trunk), list(own)
        deep = {id(parameter) for parameter in (*own, *trunk)}
        self.above = [parameter for parameter in self.parameters if id(parameter) not in deep]

    @property
    def separate(self) -> bool:
        """All tasks may come in one batch."""
        return False

    def watch(self) -> AbstractContextManager[None]:
        """Be there when losses are computed whose gradients are to be split."""
        return self.split.watching()

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take each task's gradient above the trunk, and those of the trunk all at once."""
        for task, loss in losses.items():
            if self.above:  # autograd goes no deeper than it has to: to the top of the trunk
                self._take(task, loss, self.above, again=True)
            self.rows.row(task)
        if self.trunk or self.own:
            with self.split.taken():
                torch.stack(list(losses.values())).sum().backward(inputs=[*self.trunk, *self.own])  # type: ignore[no-untyped-call]
        assert all(parameter.grad is None for parameter in self.trunk), "used in a way that does not split gradients"
