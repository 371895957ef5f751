"""RecomputedGradients: one task's gradient at a time, computed again for every product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from palbert.gradients.gram import Gram
from palbert.gradients.weighted import WeightedGradients
from palbert.runtime.replay import Decision

Visit = Callable[[int, Tensor], None]
"""Called with the place of a parameter and its gradient."""


class RecomputedGradients(WeightedGradients):
    """Compute all ⟨g_i, g_j⟩ from gradients that are not kept, then the gradient of the weighted sum of losses.

    The Gram matrix of T tasks takes T (T + 1) / 2 − 1 backward passes, the update up to two more. All losses of a step
    must come at once, so accumulation is not supported.
    """

    def check(self, *, accumulation: int) -> None:
        """Raise ValueError for a single task, or for accumulation."""
        super().check(accumulation=accumulation)
        if accumulation > 1:
            raise ValueError(
                f"memory 'recompute' with accumulation {accumulation}: the products of the whole step's gradients "
                "cannot be computed from its pieces without keeping one gradient per task. Take memory = 'keep', or "
                "accumulation = 1."
            )

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Weigh the tasks of a step, and take the gradient of this process's rows."""
        losses = self.scaled(losses)
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

    def exchange(self) -> Decision | None:
        """Sum over processes; `backward` has done everything else."""
        return partial(self.ranks.sum_in_place, self.parameters) if self.ranks.communicate else None

    def _streamed_gram(self, losses: Mapping[str, Tensor]) -> Gram:
        """Hold one task's gradient and stream those of the tasks after it, parameter by parameter."""
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

                def multiply(
                    place: int, gradient: Tensor, one: str = task, other: str = other, first: bool = number == 0
                ) -> None:
                    if place in held:
                        gram.add_product(one, other, held[place], gradient)
                    if first:
                        gram.add_square(other, place, gradient)

                self._stream(losses[other], multiply)
        return gram

    def _stream(self, loss: Tensor, visit: Visit) -> None:
        """Visit each parameter's gradient as soon as it is computed, without keeping it.

        Gradients of several processes are summed and visited at the end, in an order that is the same for all.
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
    """Run backward; visit each gradient as soon as it is computed instead of leaving it in `.grad`."""

    def add_hook(place: int, parameter: Tensor) -> Any:
        def take(tensor: Tensor) -> None:
            gradient, tensor.grad = tensor.grad, None
            assert gradient is not None
            visit(place, gradient)

        return parameter.register_post_accumulate_grad_hook(take)  # type: ignore[no-untyped-call]

    handles = [add_hook(place, parameter) for place, parameter in enumerate(parameters)]
    try:
        loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    finally:
        for handle in handles:
            handle.remove()
