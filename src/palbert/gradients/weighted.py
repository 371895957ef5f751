"""WeightedGradients: the methods that combine the tasks' gradients with weights from their Gram matrix."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import combinations

from torch import Tensor

from palbert.errors import RecipeError
from palbert.gradients import GradientMethod
from palbert.gradients.weighting import Weighting
from palbert.runtime.distributed import Ranks

log = logging.getLogger(__name__)


class WeightedGradients(GradientMethod):
    """Combine the gradients g_i of λ_i L_i to Σ w_i g_i, with weights w computed from the matrix of all ⟨g_i, g_j⟩.

    Matrix and weights cover the shared parameters: those for which at least two tasks of the step have a gradient.
    A parameter of a single task, such as one of its head, keeps λ_i g_i, as in the papers. A step of one task has
    nothing to combine: its gradient is that of `Sum`. Subclasses differ in how they hold the gradients until the
    weights are known.

    Args:
        weights: λ of each task.
        parameters: All trained parameters.
        weighting: Computes the weights from the Gram matrix.
    """

    def __init__(self, weights: Mapping[str, float], *, parameters: Sequence[Tensor], weighting: Weighting) -> None:
        self.weights = dict(weights)
        self.parameters = list(parameters)
        self.weighting = weighting
        self.ranks = Ranks()
        self._cosines: dict[str, Tensor] = {}
        self._has_warned = False

    def check(self, *, accumulation: int) -> None:
        """Raise ValueError for a single task."""
        if len(self.weights) < 2:
            name = type(self.weighting).__name__
            raise ValueError(f"{name} with one task: it combines the gradients of several. Take 'sum', or add a task.")

    def join(self, ranks: Ranks) -> None:
        """Sum the gradients over several processes."""
        self.ranks = ranks

    def scaled(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return λ_i L_i for the tasks that have a loss, in the order of the weights."""
        return {task: weight * losses[task] for task, weight in self.weights.items() if task in losses}

    def weigh(self, tasks: Sequence[str], gram: Tensor, *, shared: bool) -> Tensor:
        """Return the weight of each of a step's tasks, (tasks,), on the CPU, where solvers loop over single numbers.

        Args:
            tasks: The tasks of the step, in the order of the matrix.
            gram: All ⟨g_i, g_j⟩ over the shared parameters, (tasks, tasks), on the CPU.
            shared: Whether there is a shared parameter.
        """
        weights = gram.new_ones(len(tasks))
        if not shared:
            self._cosines = {}
            if len(tasks) > 1 and not self._has_warned:
                name = type(self.weighting).__name__
                log.warning("%s has no effect: no trained parameter is shared by two tasks.", name)
                self._has_warned = True
            return weights
        # Tasks of weight 0 are left out: with a gradient of 0 among them, MGDA and CAGrad would not move at all.
        counted = [tasks.index(task) for task, weight in self.weights.items() if weight and task in tasks]
        lengths = gram.diagonal().sqrt()
        cosines = gram / lengths.outer(lengths)
        self._cosines = {f"{tasks[i]}/{tasks[j]}": cosines[i, j].clamp(-1, 1) for i, j in combinations(counted, 2)}
        # When a run diverges, the log names the loss that did; the solver would only fail.
        if len(counted) > 1 and gram.isfinite().all():
            found = self.weighting(_unit(gram[counted][:, counted]))
            if found.shape != (len(counted),):
                raise RecipeError(
                    f"{type(self.weighting).__name__} gives weights of shape {tuple(found.shape)}; "
                    f"expected one per task, {(len(counted),)}."
                )
            weights[counted] = found.to(weights)
        return self.ranks.broadcast(weights)  # PCGrad's random orders differ between processes

    def observations(self) -> dict[str, Tensor]:
        """Return the cosine of each pair of tasks, by "first/second", once; NaN where a gradient is 0."""
        found, self._cosines = self._cosines, {}
        return found


def _unit(gram: Tensor) -> Tensor:
    """Scale a Gram matrix to a mean diagonal of 1.

    In theory weights do not depend on the scale, but torchjd's solvers have absolute tolerances: CAGrad, for one, does
    not move when all gradients are shorter than 0.01.
    """
    scale = gram.diagonal().mean()
    return gram / scale if scale > 0 else gram
