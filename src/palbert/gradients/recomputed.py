"""Recomputed: one task's gradient at a time, taken again for every product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from palbert.gradients.gram import Gram
from palbert.gradients.memory import Memory

Visit = Callable[[int, Tensor], None]
"""Look at the gradient of the parameter at a place."""


class Recomputed(Memory):
    """Take all ⟨g_i, g_j⟩ from gradients that pass by, then the gradient of the weighted sum of losses."""

    def check(self, *, accumulation: int) -> None:
        """Refuse a step in pieces."""
        if accumulation > 1:
            raise ValueError(
                f"memory 'recompute' with accumulation {accumulation}: products of the whole step's gradients cannot "
                "be had from its pieces without keeping a gradient a task. Take memory = 'keep', or accumulation = 1."
            )

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Weigh the tasks of a step, and take the gradient of this process's rows."""
        if len(losses) < 2:
            for loss in losses.values():
                loss.backward()  # type: ignore[no-untyped-call]
            return
        assert all(parameter.grad is None for parameter in self.parameters), "recompute needs a step's losses at once"
        products = self._streamed_gram(losses).read()
        weights = self.weigh(products.tasks, products.matrix, shared=bool(products.shared))
        own = [self.parameters[place] for place in products.own]
        shared = [self.parameters[place] for place in products.shared]
        values = torch.stack(list(losses.values()))
        if shared:
            (weights.to(values) * values).sum().backward(inputs=shared, retain_graph=bool(own))  # type: ignore[no-untyped-call]
        if own:
            values.sum().backward(inputs=own)  # type: ignore[no-untyped-call]

    def combine(self) -> None:
        """Add up over processes; backward has done everything else."""
        self.ranks.sum_in_place(self.parameters)

    def _streamed_gram(self, losses: Mapping[str, Tensor]) -> Gram:
        """Hold one task's gradient and let those of the tasks after it pass by, parameter by parameter."""
        gram, tasks = Gram(losses), list(losses)
        held: dict[int, Tensor] = {}
        for number, task in enumerate(tasks[:-1]):

            def hold(place: int, gradient: Tensor, task: str = task, first: bool = number == 0) -> None:
                held[place] = gradient
                if first:
                    gram.add_square(task, place, gradient)

            held.clear()
            self._stream(losses[task], hold)
            for other in tasks[number + 1 :]:

                def pass_by(
                    place: int, gradient: Tensor, one: str = task, other: str = other, first: bool = number == 0
                ) -> None:
                    if place in held:
                        gram.add_product(one, other, held[place], gradient)
                    if first:
                        gram.add_square(other, place, gradient)

                self._stream(losses[other], pass_by)
        return gram

    def _stream(self, loss: Tensor, visit: Visit) -> None:
        """Show each parameter's gradient as soon as it is there, and let go of it.

        Those of several processes are added up and shown at the end, in an order that is the same for all.
        """
        if self.ranks.size == 1:
            _visit_gradients(loss, self.parameters, visit)
            return
        found: dict[int, Tensor] = {}
        _visit_gradients(loss, self.parameters, found.__setitem__)
        own = [found.get(place) for place in range(len(self.parameters))]
        for place, gradient in enumerate(self.ranks.sum_gradients(own, self.parameters)):
            if gradient is not None:
                visit(place, gradient)


def _visit_gradients(loss: Tensor, parameters: Sequence[Tensor], visit: Visit) -> None:
    """Run backward, and hand over each gradient as soon as it is there in place of leaving it in `.grad`."""

    def watch(place: int, parameter: Tensor) -> Any:
        def take(tensor: Tensor) -> None:
            gradient, tensor.grad = tensor.grad, None
            assert gradient is not None
            visit(place, gradient)

        return parameter.register_post_accumulate_grad_hook(take)  # type: ignore[no-untyped-call]

    handles = [watch(place, parameter) for place, parameter in enumerate(parameters)]
    try:
        loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    finally:
        for handle in handles:
            handle.remove()
