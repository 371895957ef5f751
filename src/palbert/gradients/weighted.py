"""Weighted: gradient methods that work on the Gram matrix of the tasks' gradients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import combinations
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor

from palbert.errors import MissingExtraError
from palbert.gradients import GradientMethod
from palbert.gradients.kept import Kept
from palbert.gradients.memory import Memory
from palbert.gradients.recomputed import Recomputed
from palbert.runtime.distributed import Ranks

log = logging.getLogger(__name__)

MemoryName = Literal["keep", "recompute"]
MEMORIES: dict[MemoryName, type[Memory]] = {"keep": Kept, "recompute": Recomputed}
Weighting = Callable[[Tensor], Tensor]
"""Gram matrix, (tasks, tasks), to one weight a task, (tasks,)."""


class Weighted(GradientMethod):
    """Combine the gradients g_i of λ_i L_i to Σ w_i g_i, with weights w read off the matrix of all ⟨g_i, g_j⟩.

    Matrix and weights concern the shared parameters: those that at least two tasks of the step move (gradient not 0).
    A task's own parameters, such as its head, keep λ_i g_i, as in the papers. A step of one task has nothing to
    combine: its gradient is that of `Sum`. What is weighed here is taken and added up by its `memory`.

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
        memory: MemoryName = "keep",
    ) -> None:
        if memory not in get_args(MemoryName):
            raise ValueError(f"memory: expected 'keep' or 'recompute', found {memory!r}.")
        self.weights = dict(weights)
        self.weighting = weighting
        self.memory = MEMORIES[memory](parameters, weigh=self.weigh)
        self.memory.expect(len(self.weights))
        self.ranks = Ranks()
        self._cosines: dict[str, Tensor] = {}
        self._told = False

    def check(self, *, accumulation: int) -> None:
        """Refuse a single task, and what the memory cannot do."""
        name = type(self).__name__
        if len(self.weights) < 2:
            raise ValueError(f"{name} with one task: it combines the gradients of several. Take 'sum', or add a task.")
        self.memory.check(accumulation=accumulation)

    def check_plans(self, plans: Iterable[Sequence[Sequence[str]]]) -> None:
        """See how many tasks the steps of all epochs hold at most; say when that is one."""
        most = max((len(set(step)) for plan in plans for step in plan), default=1)
        if most < 2:
            log.warning("%s has no effect: the sampler never gives two tasks in a step.", type(self).__name__)
        self.memory.expect(most)

    def weigh(self, tasks: Sequence[str], matrix: Tensor, *, shared: bool) -> Tensor:
        """Return the weights of a step's tasks, on the CPU, where weightings loop over single numbers; see `Weigh`."""
        weights = matrix.new_ones(len(tasks))
        if not shared:
            self._cosines = {}
            if len(tasks) > 1 and not self._told:
                log.warning("%s has no effect: no trained parameter is moved by two tasks.", type(self).__name__)
                self._told = True
            return weights
        # A task of weight 0 has no say: with its gradient of 0, MGDA and CAGrad would have nobody move.
        counted = [tasks.index(task) for task, weight in self.weights.items() if weight and task in tasks]
        lengths = matrix.diagonal().sqrt()
        cosines = matrix / lengths.outer(lengths)
        self._cosines = {f"{tasks[i]}/{tasks[j]}": cosines[i, j].clamp(-1, 1) for i, j in combinations(counted, 2)}
        # Of a run that diverges, the log tells which loss it was; solvers would only fail on its matrix.
        if len(counted) > 1 and matrix.isfinite().all():
            weights[counted] = self.weighting(_unit(matrix[counted][:, counted])).to(weights)
        return self.ranks.first(weights)  # the random orders of some are not those of other processes

    def observations(self) -> dict[str, Tensor]:
        """Return the cosine of each pair of tasks, by "first/second"; NaN where a gradient is 0. Each is told once."""
        found, self._cosines = self._cosines, {}
        return found

    def backward(self, losses: Mapping[str, Tensor]) -> None:
        """Take in the losses of one batch, each times its λ."""
        self.memory.backward({task: weight * losses[task] for task, weight in self.weights.items() if task in losses})

    # Everything else is the memory's.

    def join(self, ranks: Ranks) -> None:
        """Work on the gradients of several processes, added up."""
        self.ranks = ranks
        self.memory.join(ranks)

    @property
    def separate(self) -> bool:
        """Whether each task should come in a batch of its own."""
        return self.memory.separate

    @property
    def held(self) -> list[Tensor]:
        """The memory that stays for the gradients of the next step."""
        return self.memory.held

    def clear(self) -> None:
        """Forget the gradients of a step."""
        self.memory.clear()

    def watch(self) -> AbstractContextManager[None]:
        """Return the context that the losses of a batch are computed in."""
        return self.memory.watch()

    def compare(self) -> Any:
        """Take what is to be decided on, on the device; None where there is nothing to weigh."""
        return self.memory.compare()

    def decide(self, question: Any) -> None:
        """Weigh the tasks."""
        self.memory.decide(question)

    def combine(self) -> None:
        """Leave the weighted sum."""
        self.memory.combine()


class WithoutOptions(Weighted):
    """A method that is one of torchjd's weightings as it is."""

    weighting_name: ClassVar[str]
    """The weighting's name in torchjd."""

    def __init__(
        self, weights: Mapping[str, float], *, parameters: Sequence[Tensor], memory: MemoryName = "keep"
    ) -> None:
        weighting = torchjd_weighting(self.weighting_name)
        super().__init__(weights, parameters=parameters, weighting=weighting, memory=memory)


def torchjd_weighting(name: str, **options: Any) -> Weighting:
    """Make one of torchjd's weightings (https://torchjd.org)."""
    try:
        from torchjd import aggregation

        made: Weighting = getattr(aggregation, name)(**options)
    except ImportError as error:  # torchjd itself, or the solver that this weighting needs
        raise MissingExtraError("Gradient methods need", package="torchjd", extra="gradients") from error
    return made


def _unit(matrix: Tensor) -> Tensor:
    """Scale a Gram matrix to a mean square of 1.

    Weights do not depend on the scale in theory; torchjd's solvers have absolute tolerances, at which CAGrad, for one,
    stands still when all gradients are shorter than 0.01.
    """
    scale = matrix.diagonal().mean()
    return matrix / scale if scale > 0 else matrix
