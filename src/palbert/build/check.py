"""What is refused before anything is loaded."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import torch

from palbert.build.gradients import make_gradients
from palbert.build.model import CHECKED_SIZE, check_head, check_pooling, check_tasks
from palbert.build.named import check, make
from palbert.build.teachers import check_teachers
from palbert.build.trainer import make_average, make_objectives, make_sampler, takes_factors
from palbert.errors import PalbertError, RecipeError
from palbert.metrics import find_metric, formula_text
from palbert.objectives import Term
from palbert.recipe.schema import Recipe
from palbert.registry import ADAPTERS, RELATIONS, SCHEDULES
from palbert.runtime.distributed import Ranks

log = logging.getLogger(__name__)


def check_names(recipe: Recipe, ranks: Ranks | None = None) -> None:
    """Refuse metrics, losses, heads and options that do not exist, before anything is loaded."""
    check_tasks(recipe.tasks, recipe.adapters, "adapters")
    check_tasks(recipe.tasks, recipe.relation, "relation")
    if recipe.adapters:
        check(ADAPTERS, recipe.adapters, "adapters", CHECKED_SIZE, layers=1)
    if recipe.relation:
        check(RELATIONS, recipe.relation, "relation", CHECKED_SIZE)
        inputs = {(task.kind, task.siamese) for name, task in recipe.tasks.items() if name in recipe.relation.tasks}
        if len(inputs) > 1:
            raise RecipeError(
                "relation.tasks: these tasks give vectors of different kinds (single, joint or siamese).",
                hint="Share the layer among tasks with one kind of input.",
            )
    for task in recipe.tasks.values():
        for metric in task.metrics:
            try:
                find_metric(metric, target=task.target)
            except PalbertError as error:
                raise RecipeError(f"tasks.{task.name}.metrics: {error.message}", hint=error.hint) from None
        check_head(task)
        check_pooling(task)
    formula_text({name: task.metric for name, task in recipe.tasks.items()}, recipe.overall)
    check_teachers(recipe)
    for number, stage in enumerate(recipe.stages):
        try:
            _check_stage(stage, ranks)
        except RecipeError as error:
            place = f"phases.{number}." if recipe.phases else ""
            raise RecipeError(place + error.message, hint=error.hint) from None


def _check_stage(recipe: Recipe, ranks: Ranks | None) -> None:
    sampler = recipe.training.sampler
    if recipe.factors and not takes_factors(sampler):
        names = ", ".join(recipe.factors)
        log.warning("The factors of %s have no effect: sampler '%s' draws nothing.", names, sampler.name)
    _warn_of_clip(recipe)
    make_sampler(recipe, rows=dict.fromkeys(recipe.sets, 1))
    make(SCHEDULES, recipe.optimizer.schedule, "optimizer.schedule")
    if recipe.pretraining:
        make(SCHEDULES, recipe.pretraining.schedule, "pretraining.schedule")
    _check_triplets(recipe, make_objectives(recipe).terms)
    make_gradients(recipe, ranks=ranks)
    make_average(recipe, torch.nn.Identity())  # type: ignore[arg-type]


def _warn_of_clip(recipe: Recipe) -> None:
    """Say where a weight has no effect: gradients of one task that are all cut to one length have lost it."""
    training = recipe.training
    weighed = [f"tasks.{name}.weight" for name, task in recipe.tasks.items() if task.weight not in (0, 1)]
    weighed += ["training.balance"] if training.balance.name != "fixed" else []
    alone = training.sampler.name != "mixed" and ":" not in training.sampler.name and len(recipe.tasks) > 1
    if weighed and alone and math.isfinite(training.clip):
        log.warning(
            "%s: where a step has one task, training.clip = %g takes this out again of every gradient that is longer; "
            'set training.clip = inf, or training.sampler = "mixed".',
            ", ".join(weighed), training.clip,
        )  # fmt: skip


def _check_triplets(recipe: Recipe, terms: Sequence[Term]) -> None:
    """Refuse triplets that no term takes, a term without triplets, and triplets that nothing can learn from."""
    for number, (section, term) in enumerate(zip(recipe.objectives, terms, strict=True)):
        if term.triplets and term.weight > 0 and not term.goals:
            raise RecipeError(
                f"objectives.{number}: {section.name} contrasts triplets, and its tasks have none.",
                hint='Give a task an extra set with form = "triplets", and name it in the objective\'s tasks.',
            )
    taken = {name for term in terms if term.triplets and term.weight > 0 for name in term.goals}
    trained = recipe.training.trains or ("encoder", "adapters")
    with_adapter = (recipe.adapters.tasks or tuple(recipe.tasks)) if recipe.adapters and "adapters" in trained else ()
    for spec in (spec for spec in recipe.sets.values() if spec.triplets):
        if spec.name not in taken:
            raise RecipeError(
                f"{spec.place}: no objective takes these triplets.",
                hint=f'Put {{name = "supervised-simcse", tasks = ["{spec.task.name}"]}} among the objectives, '
                "with a weight above 0, or leave the set out.",
            )
        if spec.task.name not in with_adapter and (recipe.encoder.frozen or "encoder" not in trained):
            raise RecipeError(
                f"{spec.place}: triplets train the encoder, and it is frozen.",
                hint="Train the encoder, give the task adapters, or leave the set out.",
            )
