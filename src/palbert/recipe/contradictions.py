"""Contradictions: settings of a recipe that are valid one by one, but not together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from palbert.errors import did_you_mean

if TYPE_CHECKING:
    from palbert.recipe.schema import Recipe


def contradictions(recipe: Recipe, *, invalid: Collection[str] = (), names: Collection[str] | None = None) -> list[str]:
    """Return all contradictions, each with its place.

    Args:
        recipe: The recipe.
        invalid: Sections that were refused and have their defaults here; checks that read them are skipped.
        names: The names of all tasks, if some were refused and are not in the recipe.
    """
    names = recipe.tasks if names is None else names
    found = [] if names or "tasks" in invalid else ["tasks: expected at least one task, found none."]
    found += [*_task_names(recipe), *_phase_tasks(recipe, names)]
    for sections, check in CHECKS:
        if not sections & set(invalid):
            found += check(recipe)
    return found


def _task_names(recipe: Recipe) -> Iterator[str]:
    for name, task in recipe.tasks.items():
        if task.name != name:
            yield f"tasks.{name}.name: '{task.name}' differs from the name of the task. Leave it out."


def _phase_tasks(recipe: Recipe, names: Collection[str]) -> Iterator[str]:
    for number, phase in enumerate(recipe.phases):
        for name in phase.tasks:
            if name not in names:
                yield f"phases.{number}.tasks: unknown task '{name}'. {did_you_mean(name, names)}"


def _phase_intervals(recipe: Recipe) -> Iterator[str]:
    for number, phase in enumerate(recipe.phases):
        for name in ("log_every", "save_every", "patience", "time_limit"):
            if getattr(phase.training, name) != getattr(recipe.training, name):
                yield f"phases.{number}.training.{name}: this is set for the whole run, in [training]."


def _automatic(recipe: Recipe) -> Iterator[str]:
    if recipe.training.auto and recipe.phases:
        yield "training.auto: a recipe with phases sets its epochs and rates itself. Leave auto out."


def _trained_parts(recipe: Recipe) -> Iterator[str]:
    phases = {f"phases.{number}.": phase.training for number, phase in enumerate(recipe.phases)}
    for place, training in {"": recipe.training, **phases}.items():
        if recipe.encoder.frozen and "encoder" in training.trains:
            yield f"{place}training.trains: names the encoder, but encoder.frozen is true."
        if training.trains == ("adapters",) and recipe.adapters is None:
            yield f"{place}training.trains: names only adapters, but the recipe has none."


def _probe_start(recipe: Recipe) -> Iterator[str]:
    for name, task in recipe.tasks.items():
        if task.head_start == "probe" and recipe.pretraining:
            yield (
                f"tasks.{name}.head_start: a probe of the encoder before [pretraining] does not fit the one after it. "
                "Leave head_start out."
            )


def _mixout(recipe: Recipe) -> Iterator[str]:
    sections = [phase.training for phase in recipe.phases] or [recipe.training]
    untrained = recipe.encoder.frozen or all(section.trains and "encoder" not in section.trains for section in sections)
    if recipe.encoder.mixout and untrained:
        yield (
            "encoder.mixout: mixes in pretrained weights, but the encoder is not trained and has no others. "
            "Train the encoder, or leave mixout out."
        )


def _dropout(recipe: Recipe) -> Iterator[str]:
    if recipe.encoder.dropout != 0 or recipe.encoder.attention_dropout != 0:
        return
    for number, objective in enumerate(recipe.objectives):
        names = objective.tasks or recipe.tasks
        without = any(name in recipe.tasks and not recipe.tasks[name].dropout for name in names)
        simcse = objective.name == "simcse" and objective.options.get("dropout") is None
        lacks = simcse or (objective.name == "rdrop" and without)
        if lacks and objective.options.get("weight") != 0:
            own = ", or give the objective a dropout of its own" * simcse
            yield (
                f"objectives.{number}: {objective.name} compares two passes with different dropout, but there is none. "
                f"Set encoder.dropout above 0{own}."
            )


CHECKS: tuple[tuple[set[str], Callable[[Recipe], Iterator[str]]], ...] = (
    ({"training", "phases"}, _phase_intervals),
    ({"training", "phases"}, _automatic),
    ({"training", "phases", "encoder", "adapters"}, _trained_parts),
    ({"tasks", "pretraining"}, _probe_start),
    ({"training", "phases", "encoder"}, _mixout),
    ({"encoder", "objectives"}, _dropout),
)
"""Each check with the sections that it reads."""
