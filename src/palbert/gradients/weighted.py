"""Weighted: gradient methods that work on the Gram matrix of the tasks' gradients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import combinations
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from palbert.errors import MissingExtraError
from palbert.gradients import GradientMethod
from palbert.gradients.comparison import Comparison
from palbert.gradients.gram import Gram
from palbert.model.factors import Factors
from palbert.model.split import Rows, Split
from palbert.runtime.distributed import Ranks

log = logging.getLogger(__name__)

Memory = Literal["keep", "recompute"]
Weighting = Callable[[Tensor], Tensor]
"""Gram matrix, (tasks, tasks), to one weight a task, (tasks,)."""


class Weighted(GradientMethod):
    """Combine the gradients g_i of λ_i L_i to Σ w_i g_i, with weights w read off the matrix of all ⟨g_i, g_j⟩.

    Matrix and weights concern the shared parameters: those that at least two tasks of the step move (gradient not 0).
    A task's own parameters, such as its head, keep λ_i g_i, as in the papers. A step of one task has nothing to
    combine: its gradient is that of `Sum`.

    Args:
        weights: λ of each task.
        parameters: All that is trained.
        weighting: From the Gram matrix, scaled to a mean square of 1, to the weights of the step's tasks, which come
            in the order of `weights`.
        memory: "keep" holds one gradient a task until the step ends, and takes one backward pass a task, or one for
            all of them where gradients can be split. "recompute" holds one task's gradient at a time: T (T + 1) / 2 − 1
            backward passes for the matrix of T tasks, and others for the update. It needs all losses of a step at
            once, so it goes without accumulation.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        parameters: Sequence[Tensor],
        weighting: Weighting,
        memory: Memory = "keep",
    ) -> None:
        if memory not in get_args(Memory):
            raise ValueError(f"memory: expected 'keep' or 'recompute', found {memory!r}.")
        self.weights = dict(weights)
        self.parameters = list(parameters)
        self.weighting = weighting
        self.memory = memory
        self._backward = {"keep": self._keep, "recompute": self._recompute}[memory]
        self._rows = Rows(self.parameters, most=len(self.weights))
        self._counts = torch.ones(0)  # what each task counts for, kept from step to step
        self._split: Split | None = None
        self._trunk: list[Tensor] = []
        self._own: list[Tensor] = []
        self._above: list[Tensor] = []
        self._comparison: Comparison | None = None
        self._cosines: dict[str, Tensor] = {}
        self._told = False
        self._stream = self._stream_alone
        self.ranks = Ranks()

    def join(self, ranks: Ranks) -> None:
        """Work on the gradients of several processes, added up."""
        self.ranks = ranks
        self._stream = self._stream_together if ranks.size > 1 else self._stream_alone

    def check(self, *, accumulation: int) -> None:
        """Refuse what cannot work: a single task, or recomputing in pieces."""
        name = type(self).__name__
        if len(self.weights) < 2:
            raise ValueError(f"{name} with one task: it combines the gradients of several. Take 'sum', or add a task.")
        if self.memory == "recompute" and accumulation > 1:
            raise ValueError(
                f"memory 'recompute' with accumulation {accumulation}: products of the whole step's gradients cannot "
                "be had from its pieces without keeping a gradient a task. Take memory = 'keep', or accumulation = 1."
            )

    def check_plans(self, plans: Iterable[Sequence[Sequence[str]]]) -> None:
        """See how many tasks the steps of all epochs hold at most; say when that is one."""
        self._rows.most = max((len(set(step)) for plan in plans for step in plan), default=1)
        if self._rows.most < 2:
            log.warning("%s has no effect: the sampler never gives two tasks in a step.", type(self).__name__)

    @property
    def most(self) -> int:
        """Tasks of a step, at most."""
        return self._rows.most

    def split(self, *, trunk: Sequence[Tensor], own: Sequence[Tensor], large: Sequence[Tensor] = ()) -> None:
        """Take the gradients of all tasks of a batch in one backward pass.

        Args:
            trunk: What all tasks share below everything else, used by functions that split its gradients.
            own: What lies as deep and belongs to one task each, such as adapters.
            large: What of the trunk is so large that the factors of its gradients are kept.
        """
        self._trunk, self._own = list(trunk), list(own)
        large = large if self.ranks.size == 1 else ()  # factors of several processes cannot be added up
        apart = {id(parameter) for parameter in (*own, *large)}
        rows = Rows([each for each in self.parameters if id(each) not in apart], most=self._rows.most)
        deep = {id(parameter) for parameter in (*own, *trunk)}
        self._above = [parameter for parameter in self.parameters if id(parameter) not in deep]
        self._rows, self._split, self._backward = rows, Split(rows, large), self._keep_split

    @property
    def separate(self) -> bool:
        """Whether each task should come in a batch of its own: then T backward passes cost no more than one."""
        return self.memory == "keep" and self._split is None

    @property
    def held(self) -> list[Tensor]:
        """The memory that stays for the gradients of the next step."""
        return [*(rows.numbers for rows in self._all_rows), self._counts]

    @property
    def _all_rows(self) -> list[Rows]:
        return [self._rows, self._split.large] if self._split else [self._rows]

    def watch(self) -> AbstractContextManager[None]:
        """Be there when losses are computed whose gradients are to be split."""
        return self._split.watching() if self._split else nullcontext()

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take in the gradients of one batch."""
        self._backward({task: weight * losses[task] for task, weight in self.weights.items() if task in losses})

    def compare(self) -> Comparison | None:
        """Take the inner products of the kept gradients, on the device; None where there is nothing to weigh."""
        tasks = self._rows.tasks
        if not tasks:
            return None
        blocks: list[Tensor] = []
        for rows in self._all_rows:
            holders = rows.holders()
            blocks += rows.blocks([place for place, found in holders.items() if len(found) > 1])
            self.ranks.add_in_place(rows.numbers[: len(tasks)])
            for place, found in holders.items():
                # What one task alone moves keeps its gradient; of the others, the first row will hold the sum.
                rows.parameters[place].grad = rows.view(place, found[0] if len(found) == 1 else 0)
        if self._own:
            self.ranks.sum_in_place(self._own)
        if len(self._counts) < len(tasks):
            self._counts = self.parameters[0].new_ones(max(self._rows.most, len(tasks)))
        factors = self._split.factors if self._split else Factors()
        self._comparison = Comparison.of(tasks, blocks, factors, self._counts)
        return self._comparison if len(tasks) > 1 else None

    def decide(self, comparison: Comparison) -> None:
        """Weigh the tasks: the one time a step that the host waits for the device."""
        tasks = [task for task in self.weights if task in comparison.tasks]
        order = [comparison.tasks.index(task) for task in tasks]
        weights = torch.ones(len(tasks))
        matrix = comparison.matrix.cpu()[order][:, order]
        weights[order] = self._weigh(tasks, matrix, shared=comparison.is_shared)
        comparison.weights.copy_(weights)

    def combine(self) -> None:
        """Weigh the kept gradients; with "recompute", the last backward has done it for this process's rows."""
        if self._rows.tasks and not self._comparison:
            comparison = self.compare()
            if comparison:
                self.decide(comparison)
        if self._comparison:
            self._comparison.combine()
        else:
            self.ranks.sum_in_place(self.parameters)
        self.clear()

    def clear(self) -> None:
        """Forget the gradients of a step."""
        (self._split or self._rows).clear()
        self._comparison = None

    def observations(self) -> dict[str, Tensor]:
        """Return the cosine of each pair of tasks, by "first/second"; NaN where a gradient is 0. Each is told once."""
        found, self._cosines = self._cosines, {}
        return found

    def _keep(self, losses: Mapping[str, Tensor]) -> None:
        last = len(losses) - 1
        for number, (task, loss) in enumerate(losses.items()):
            self._take(task, loss, self.parameters, again=number < last)

    def _keep_split(self, losses: Mapping[str, Tensor]) -> None:
        assert self._split
        for task, loss in losses.items():
            if self._above:  # autograd goes no deeper than it has to: to the top of the trunk
                self._take(task, loss, self._above, again=True)
            self._rows.row(task)
        if self._trunk or self._own:
            with self._split.taken():
                torch.stack(list(losses.values())).sum().backward(inputs=[*self._trunk, *self._own])  # type: ignore[no-untyped-call]
        assert all(parameter.grad is None for parameter in self._trunk), "used in a way that does not split gradients"

    def _take(self, task: str, loss: Tensor, parameters: Sequence[Tensor], *, again: bool) -> None:
        found = torch.autograd.grad(loss, parameters, retain_graph=again, allow_unused=True)
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                self._rows.add(parameter, task, gradient)

    def _recompute(self, losses: Mapping[str, Tensor]) -> None:
        if len(losses) < 2:
            for loss in losses.values():
                loss.backward()  # type: ignore[no-untyped-call]
            return
        assert all(parameter.grad is None for parameter in self.parameters), "recompute needs a step's losses at once"
        products = self._streamed_gram(losses).read()
        weights = self._weigh(products.tasks, products.matrix, shared=bool(products.shared))
        own = [self.parameters[place] for place in products.own]
        shared = [self.parameters[place] for place in products.shared]
        values = torch.stack(list(losses.values()))
        if shared:
            (weights.to(values) * values).sum().backward(inputs=shared, retain_graph=bool(own))  # type: ignore[no-untyped-call]
        if own:
            values.sum().backward(inputs=own)  # type: ignore[no-untyped-call]

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
                    gram.add_product(one, other, held.get(place), gradient)
                    if first:
                        gram.add_square(other, place, gradient)

                self._stream(losses[other], pass_by)
        return gram

    def _stream_alone(self, loss: Tensor, visit: Callable[[int, Tensor], None]) -> None:
        """Show each parameter's gradient as soon as it is there, and let go of it."""
        with _visited(self.parameters, visit):
            loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]

    def _stream_together(self, loss: Tensor, visit: Callable[[int, Tensor], None]) -> None:
        """Show the gradients of several processes, added up: all at the end, in an order that is the same for all."""
        found: dict[int, Tensor] = {}
        self._stream_alone(loss, found.__setitem__)
        own = [found.get(place) for place in range(len(self.parameters))]
        for place, gradient in enumerate(self.ranks.sum_gradients(own, self.parameters)):
            if gradient is not None:
                visit(place, gradient)

    def _weigh(self, tasks: Sequence[str], matrix: Tensor, *, shared: bool) -> Tensor:
        """Return the weights of the tasks on the CPU, where weightings loop over single numbers."""
        if not shared:
            self._cosines = {}
            if len(tasks) > 1 and not self._told:
                log.warning("%s has no effect: no trained parameter is moved by two tasks.", type(self).__name__)
                self._told = True
            return torch.ones(len(tasks))
        # A task of weight 0 has no say: with its gradient of 0, MGDA and CAGrad would have nobody move.
        counted = [place for place, task in enumerate(tasks) if self.weights[task]]
        lengths = matrix.diagonal().sqrt()
        cosines = matrix / lengths.outer(lengths)
        self._cosines = {f"{tasks[i]}/{tasks[j]}": cosines[i, j].clamp(-1, 1) for i, j in combinations(counted, 2)}
        weights = matrix.new_ones(len(tasks))
        # Of a run that diverges, the log tells which loss it was; solvers would only fail on its matrix.
        if len(counted) > 1 and matrix.isfinite().all():
            weights[counted] = self.weighting(_unit(matrix[counted][:, counted])).to(weights)
        return self.ranks.first(weights)  # the random orders of some are not those of other processes


def torchjd_weighting(name: str, **options: Any) -> Weighting:
    """Make one of torchjd's weightings (https://torchjd.org)."""
    try:
        from torchjd import aggregation

        made: Weighting = getattr(aggregation, name)(**options)
    except ImportError as error:  # torchjd itself, or the solver that this weighting needs
        raise MissingExtraError("Gradient methods need", package="torchjd", extra="gradients") from error
    return made


@contextmanager
def _visited(parameters: Sequence[Tensor], visit: Callable[[int, Tensor], None]) -> Iterator[None]:
    """During a backward pass, hand over each gradient in place of leaving it in `.grad`."""

    def watch(place: int, parameter: Tensor) -> Any:
        def take(tensor: Tensor) -> None:
            gradient, tensor.grad = tensor.grad, None
            assert gradient is not None
            visit(place, gradient)

        return parameter.register_post_accumulate_grad_hook(take)  # type: ignore[no-untyped-call]

    handles = [watch(place, parameter) for place, parameter in enumerate(parameters)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _unit(matrix: Tensor) -> Tensor:
    """Scale a Gram matrix to a mean square of 1.

    Weights do not depend on the scale in theory; torchjd's solvers have absolute tolerances, at which CAGrad, for one,
    stands still when all gradients are shorter than 0.01.
    """
    scale = matrix.diagonal().mean()
    return matrix / scale if scale > 0 else matrix
