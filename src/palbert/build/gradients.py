"""The gradient method of a recipe."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from torch import Tensor

from palbert.build.named import make
from palbert.errors import RecipeError
from palbert.gradients import GradientMethod, Weighting
from palbert.gradients.kept import KeptGradients
from palbert.gradients.recomputed import RecomputedGradients
from palbert.gradients.split import SplitGradients, Trunk
from palbert.recipe.schema import Recipe
from palbert.registry import GRADIENTS
from palbert.runtime.distributed import Ranks
from palbert.tasks.choices import Component
from palbert.training.samplers import Plan

log = logging.getLogger(__name__)

PLACE = "training.gradients"
MEMORIES = ("keep", "recompute")
"""How a method with a weighting gets the gradients of all tasks: held until the step ends, or computed again.

"keep" holds one gradient per task. "recompute" holds one task's gradient at a time, and takes more backward passes.
"""
FindTrunk = Callable[[int], Trunk | None]
"""Find what one backward pass can split, given the maximum number of tasks in a step."""


def make_gradients(
    recipe: Recipe,
    *,
    parameters: Sequence[Tensor] = (),
    plans: Iterable[Plan] | None = None,
    find_trunk: FindTrunk = lambda tasks: None,
    ranks: Ranks | None = None,
) -> GradientMethod:
    """Make the gradient method; raise RecipeError if it cannot work with the recipe.

    Args:
        recipe: The recipe, or one stage of it.
        parameters: All trained parameters.
        plans: The sets of every step, epoch by epoch; only read by methods that depend on it.
        find_trunk: Called for methods that keep one gradient per task.
        ranks: The processes that train together.
    """
    component, ranks = recipe.training.gradients, ranks or Ranks()
    cls = GRADIENTS.find(component.name, PLACE)
    weights = {name: task.weight for name, task in recipe.tasks.items()}
    method: GradientMethod
    if issubclass(cls, Weighting):
        method = _weighted(recipe, cls, weights, parameters=parameters, plans=plans, find_trunk=find_trunk)
    else:
        method = make(GRADIENTS, component, PLACE, weights, offered={"parameters": parameters})
    try:
        method.check(accumulation=recipe.training.accumulation)
    except ValueError as error:
        raise RecipeError(f"{PLACE}: {error}") from error
    try:
        method.join(ranks)
    except NotImplementedError:
        raise RecipeError(
            f"{PLACE}: '{component.name}' cannot sum the gradients of {ranks.size} processes.",
            hint="Give it a method join(ranks), or train with one process.",
        ) from None
    return method


def _weighted(
    recipe: Recipe,
    cls: type[Weighting],
    weights: Mapping[str, float],
    *,
    parameters: Sequence[Tensor],
    plans: Iterable[Plan] | None,
    find_trunk: FindTrunk,
) -> GradientMethod:
    """Make a weighting, and the method that applies it: how it holds the tasks' gradients."""
    component = recipe.training.gradients
    options = component.options
    memory = options.pop("memory", cls.shared_options["memory"])
    if memory not in MEMORIES:
        raise RecipeError(f"{PLACE}: memory: expected 'keep' or 'recompute', found {memory!r}.")
    weighting: Weighting = make(GRADIENTS, Component(name=component.name, **options), PLACE)
    most_tasks = None if plans is None else _most_tasks(recipe, plans, name=type(weighting).__name__)
    if memory == "recompute":
        return RecomputedGradients(weights, parameters=parameters, weighting=weighting)
    trunk = find_trunk(most_tasks or len(weights))
    if trunk is None:
        return KeptGradients(weights, parameters=parameters, weighting=weighting, most_tasks=most_tasks)
    return SplitGradients(weights, parameters=parameters, weighting=weighting, trunk=trunk, most_tasks=most_tasks)


def _most_tasks(recipe: Recipe, plans: Iterable[Plan], *, name: str) -> int:
    """Return the maximum number of tasks in a step of these plans; warn if it is one."""
    task_of = {set_name: spec.task.name for set_name, spec in recipe.sets.items()}
    most = max((len({task_of[set_name] for set_name in step}) for plan in plans for step in plan), default=1)
    if most < 2:
        log.warning("%s has no effect: the sampler never gives two tasks in a step.", name)
    return most
