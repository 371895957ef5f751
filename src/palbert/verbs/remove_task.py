"""Remove task: a run without one of its tasks; what remains is as it was, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from palbert.build import read_tasks
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError, did_you_mean
from palbert.inference.decisions import read_decisions
from palbert.recipe.schema import Recipe
from palbert.registry.trust import trusting
from palbert.runtime.files import AnyPath
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint import read_description, read_weights
from palbert.verbs.derived_run import Source, refuse_overlap, write_run
from palbert.verbs.origin import Ingredient, Origin
from palbert.verbs.run import Run

PER_TASK = ("heads", "poolings", "adapters")
"""The parts of a model that have an entry per task."""


def remove_task(
    run: AnyPath, task: str, *, out: AnyPath, checkpoint: str | None = None, force: bool = False, trust: bool = False
) -> Run:
    """Write a run without one of its tasks; the encoder and all other tasks stay as they are, bit for bit.

    Args:
        run: The run; it is not changed.
        task: The task to leave out.
        out: The folder of the new run.
        checkpoint: Which checkpoint to take; the best unless given.
        force: Replace the run in `out`.
        trust: Whether code from outside palbert that the run names may be imported.

    Raises:
        RecipeError: There is no such task, it is the last one, or others cannot be without it.
    """
    with trusting(trust):
        source, folder = Source.of(Path(run), checkpoint), RunFolder(Path(out))
        refuse_overlap(folder, [source.folder])
        folder.check_free(resume=None, force=force)
        tasks = read_tasks(source.checkpoint)
        if task not in tasks:
            raise RecipeError(f"{run}: no task '{task}'.", hint=did_you_mean(task, tasks))
        if len(tasks) == 1:
            raise RecipeError(
                f"{run}: '{task}' is its only task, and a run has at least one.",
                hint=f"The encoder alone: palbert export {run} --to transformers --out DIR",
            )
        description, weights = without_task(read_description(source.checkpoint), read_weights(source.checkpoint), task)
        return write_run(
            folder,
            [source],
            recipe=recipe_without(source.recipe, task),
            weights=weights,
            tokenizer=TextTokenizer.from_folder(source.checkpoint),
            description=description,
            origin=Origin("remove-task", [Ingredient.of(source.checkpoint)], tasks=[task]),
            decisions={name: each for name, each in read_decisions(source.checkpoint).items() if name != task},
            force=force,
        )


def without_task(
    description: Mapping[str, Any], weights: Mapping[str, Tensor], task: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the description and the weights of a checkpoint without a task."""
    section, tasks = description["adapters"], list(description["tasks"])
    remaining = [name for name in tasks if name != task]
    owners = _with_adapter(section, tasks)
    rest = [name for name in owners if name != task]
    if section and rest:
        everyone = set(rest) == set(remaining)
        section = {**section, "tasks": [] if everyone else rest}
    heirs = {task: rest[0]} if rest and section and not section["per_task"] and owners[0] == task else {}
    return {
        **description,
        "adapters": section if rest else None,
        "relation": _relation_without(description["relation"], task),
        "tasks": {name: description["tasks"][name] for name in remaining},
    }, dict(_weights_without(weights, task, heirs))


def _with_adapter(section: Mapping[str, Any] | None, tasks: list[str]) -> list[str]:
    return list(section["tasks"] or tasks) if section else []


def _weights_without(weights: Mapping[str, Tensor], task: str, heirs: Mapping[str, str]) -> dict[str, Tensor]:
    """Leave out the weights of a task; an adapter that others share gets the name of the next of them."""
    kept = {}
    for name, value in weights.items():
        part, _, rest = name.partition(".")
        own = rest.startswith(f"{task}.")
        if part not in PER_TASK or not own:
            kept[name] = value
        elif part == "adapters" and task in heirs:
            kept[f"adapters.{heirs[task]}.{rest.removeprefix(f'{task}.')}"] = value
    return kept


def _relation_without(section: Mapping[str, Any] | None, task: str) -> dict[str, Any] | None:
    if section is None:
        return None
    rest = [name for name in section["tasks"] if name != task]
    if len(rest) == 1:
        raise RecipeError(
            f"'{task}' and '{rest[0]}' share a relational layer, which '{rest[0]}' cannot have alone.",
            hint=f"Train a run of the other tasks: palbert train, without tasks.{task}.",
        )
    return {**section, "tasks": rest}


def recipe_without(recipe: Recipe, task: str) -> Recipe:
    """Return a recipe without a task and all that names it alone."""
    adapters, relation = recipe.adapters, recipe.relation
    if adapters and adapters.tasks:
        named = tuple(name for name in adapters.tasks if name != task)
        adapters = adapters.model_copy(update={"tasks": named}) if named else None
    if relation:
        relation = relation.model_copy(update={"tasks": tuple(name for name in relation.tasks if name != task)})
    return recipe.model_copy(
        update={
            "tasks": {name: each for name, each in recipe.tasks.items() if name != task},
            "adapters": adapters,
            "relation": relation,
            "objectives": _naming_others(recipe.objectives, task),
            "phases": _naming_others(recipe.phases, task),
        }
    )


def _naming_others(sections: tuple[Any, ...], task: str) -> tuple[Any, ...]:
    """Return objectives or phases without a task; those that name it alone are left out."""
    kept = []
    for section in sections:
        named = tuple(name for name in section.tasks if name != task)
        if named or not section.tasks:
            kept.append(section.model_copy(update={"tasks": named}))
    return tuple(kept)
