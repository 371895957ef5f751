"""Checks of a recipe before anything is loaded."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from palbert.build.gradients import make_gradients
from palbert.build.model import CHECKED_SIZE, check_head, check_pooling, check_tasks
from palbert.build.named import check, make
from palbert.build.objectives import make_loss, make_objectives
from palbert.build.problems import Problems
from palbert.build.sampling import make_sampler, takes_factors
from palbert.build.teachers import check_teachers
from palbert.build.trainer import make_average
from palbert.errors import PalbertError, RecipeError
from palbert.metrics import Metric, find_metric, formula_text
from palbert.objectives import Term
from palbert.objectives.losses import cross_entropy
from palbert.recipe.schema import Recipe
from palbert.registry import ADAPTERS, METRICS, RELATIONS, SAMPLERS, SCHEDULES
from palbert.runtime.distributed import Ranks
from palbert.targets import Target
from palbert.tasks.spec import Task

log = logging.getLogger(__name__)

TRIED_ROWS = 32
"""Rows that a metric of a user's own is tried on."""


def check_names(recipe: Recipe, ranks: Ranks | None = None) -> None:
    """Refuse parts and options that do not exist or do not fit, before anything is loaded.

    All problems are reported together, one per line.
    """
    problems = Problems()
    _check_shared_parts(recipe, problems)
    for task in recipe.tasks.values():
        _check_task(task, problems)
    with problems.collect():
        check_teachers(recipe)
    for number, stage in enumerate(recipe.stages):
        _check_stage(stage, problems, place=f"phases.{number}." if recipe.phases else "", ranks=ranks)
    problems.report()
    formula_text({name: task.metric for name, task in recipe.tasks.items()}, recipe.overall)


def _check_shared_parts(recipe: Recipe, problems: Problems) -> None:
    """Check adapters and relational layer."""
    for section, place in ((recipe.adapters, "adapters"), (recipe.relation, "relation")):
        with problems.collect():
            check_tasks(recipe.tasks, section, place)
    if recipe.adapters:
        with problems.collect():
            check(ADAPTERS, recipe.adapters, "adapters", CHECKED_SIZE, layers=1)
    if recipe.relation:
        with problems.collect():
            check(RELATIONS, recipe.relation, "relation", CHECKED_SIZE)
        with problems.collect():
            inputs = {(task.kind, task.siamese) for name, task in recipe.tasks.items() if name in recipe.relation.tasks}
            if len(inputs) > 1:
                raise RecipeError(
                    "relation.tasks: these tasks give vectors of different kinds (single, joint or siamese).",
                    hint="Share the layer among tasks with one kind of input.",
                )


def _check_task(task: Task, problems: Problems) -> None:
    """Check metrics, head, pooling and loss of a task."""
    for metric in task.metrics:
        with problems.collect(f"tasks.{task.name}.metrics: "):
            try:
                check_metric(metric, task.target)
            except PalbertError as error:
                raise RecipeError(error.message, hint=error.hint) from None
    with problems.collect():
        check_head(task)
    with problems.collect():
        check_pooling(task)
    with problems.collect():
        make_loss(task)


def check_metric(name: str, target: Target) -> None:
    """Refuse a metric that does not exist, does not fit a target, or is a user's own and fails on a few rows."""
    metric = find_metric(name)
    if not target.fits(name):
        fitting = ", ".join(sorted((*target.metrics, *target.other_metrics)))
        raise PalbertError(f"The metric '{name}' does not fit a {target.name} task.", hint=f"Use one of: {fitting}.")
    if name not in METRICS.paths:
        _try_metric(metric, target, name)


def _try_metric(metric: Metric, target: Target, name: str) -> None:
    """Score made-up answers, so that what is not a metric is refused before training and not after it."""
    generator = torch.Generator().manual_seed(0)
    one, two = (target.decode(torch.randn(TRIED_ROWS, target.outputs, generator=generator)) for _ in range(2))
    try:
        metric(target.gold(one.predicted), metric.compared(two.predicted, two.probabilities))
    except PalbertError:
        raise
    except Exception as error:  # a user's function may fail in any way
        raise PalbertError(
            f"The metric '{name}' failed on {TRIED_ROWS} made-up rows: {type(error).__name__}: {error}.",
            hint="It is called with two NumPy arrays, the labels and the predictions of all rows, as the target "
            f"'{target.name}' keeps them: here of shape {one.predicted.shape}.",
        ) from error


def _check_stage(recipe: Recipe, problems: Problems, *, place: str, ranks: Ranks | None) -> None:
    """Check what each phase may have of its own; `place` is that of the phase."""
    report = partial(problems.collect, place)
    sampler = recipe.training.sampler
    with report():
        if recipe.factors and not takes_factors(sampler):
            names = ", ".join(recipe.factors)
            log.warning("The factors of %s have no effect: sampler '%s' draws nothing.", names, sampler.name)
        make_sampler(recipe, rows=dict.fromkeys(recipe.sets, 1))
    _warn_of_clip(recipe)
    with report():
        make(SCHEDULES, recipe.optimizer.schedule, "optimizer.schedule")
    if recipe.pretraining:
        with problems.collect():
            make(SCHEDULES, recipe.pretraining.schedule, "pretraining.schedule")
    with report():
        losses = dict.fromkeys(recipe.sets, cross_entropy)  # each task's own loss was checked with it
        terms = make_objectives(recipe, losses=losses, report=report).terms
        for problem in _triplet_problems(recipe, terms) if len(terms) == len(recipe.objectives) else ():
            with report():
                raise problem
    with report():
        make_gradients(recipe, ranks=ranks)
    with report():
        make_average(recipe, torch.nn.Identity())  # type: ignore[arg-type]


def _warn_of_clip(recipe: Recipe) -> None:
    """Warn where a weight has no effect: clipping gradients of a single task to one length removes it."""
    training = recipe.training
    weighed = [f"tasks.{name}.weight" for name, task in recipe.tasks.items() if task.weight not in (0, 1)]
    weighed += ["training.balance"] if training.balance.name != "fixed" else []
    name = training.sampler.name
    alone = name != "mixed" and name in SAMPLERS.paths and len(recipe.tasks) > 1
    if weighed and alone and math.isfinite(training.clip):
        log.warning(
            "%s: where a step has one task, training.clip = %g removes its effect from every gradient that is longer; "
            'set training.clip = inf, or training.sampler = "mixed".',
            ", ".join(weighed), training.clip,
        )  # fmt: skip


def _triplet_problems(recipe: Recipe, terms: Sequence[Term]) -> Iterator[RecipeError]:
    """Yield triplets that no term takes, terms without triplets, and triplets that nothing can learn from."""
    for number, (section, term) in enumerate(zip(recipe.objectives, terms, strict=True)):
        if term.triplets and term.weight > 0 and not term.goals:
            yield RecipeError(
                f"objectives.{number}: {section.name} contrasts triplets, and its tasks have none.",
                hint='Give a task an extra set with form = "triplets", and name it in the objective\'s tasks.',
            )
    taken = {name for term in terms if term.triplets and term.weight > 0 for name in term.goals}
    trained = recipe.training.trains or ("encoder", "adapters")
    with_adapter = (recipe.adapters.tasks or tuple(recipe.tasks)) if recipe.adapters and "adapters" in trained else ()
    for spec in (spec for spec in recipe.sets.values() if spec.triplets):
        if spec.name not in taken:
            yield RecipeError(
                f"{spec.place}: no objective takes these triplets.",
                hint=f'Put {{name = "supervised-simcse", tasks = ["{spec.task.name}"]}} among the objectives, '
                "with a weight above 0, or leave the set out.",
            )
        if spec.task.name not in with_adapter and (recipe.encoder.frozen or "encoder" not in trained):
            yield RecipeError(
                f"{spec.place}: triplets train the encoder, and it is frozen.",
                hint="Train the encoder, give the task adapters, or leave the set out.",
            )
