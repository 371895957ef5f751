"""Keep: heads and adapters of a run that a new run starts from, for tasks of the same name."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch import nn

from palbert.build.checkpoint import OpenedCheckpoint, open_checkpoint
from palbert.build.machine import Machine
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.model.trained import is_checkpoint
from palbert.recipe.schema import Recipe
from palbert.tasks.spec import Task
from palbert.training.checkpoint import read_description

COMPARED = ("kind", "pair_input", "classes", "range", "target", "pooling", "head")
"""Settings of a task that must be the same for its head to be kept, or to be averaged with that of another run."""

log = logging.getLogger(__name__)


def keep_parts(model: MultiTaskModel, recipe: Recipe, folder: Path) -> None:
    """Copy what `encoder.keep` names from the run whose encoder a recipe starts from.

    Args:
        model: The new model, with new heads and adapters.
        recipe: Says what is kept.
        folder: The checkpoint that the encoder comes from.

    Raises:
        RecipeError: The folder is not a run's, or a task of the same name has parts of another kind.
    """
    kept = recipe.encoder.keep
    if "adapters" not in kept and is_checkpoint(folder) and read_description(folder)["adapters"]:
        log.warning("%s was trained with adapters; its encoder is used without them.", recipe.encoder.name)
    if not kept:
        return
    if not is_checkpoint(folder):
        raise RecipeError(
            f"encoder.keep: {recipe.encoder.name} is an encoder without tasks, so there is nothing to keep.",
            hint="Set encoder.name to the folder of a run, or leave keep out.",
        )
    # Not `Machine.of`, which would set the precision of this process.
    former = open_checkpoint(folder, Machine(torch.device("cpu"), "fp32"))
    common = [name for name in recipe.tasks if name in former.tasks]
    if not common:
        raise RecipeError(
            f"encoder.keep: no task of {recipe.encoder.name} has the name of a task of the recipe.",
            hint=f"Its tasks are: {', '.join(former.tasks)}.",
        )
    if "heads" in kept:
        _keep_heads(model, recipe, former, common)
    if "adapters" in kept:
        _keep_adapters(model, recipe, former, common)
    new = [name for name in recipe.tasks if name not in common]
    also = f"; new in this run: {', '.join(new)}" if new else ""
    log.info("kept %s of %s from %s%s", " and ".join(kept), ", ".join(common), recipe.encoder.name, also)


def _keep_heads(model: MultiTaskModel, recipe: Recipe, former: OpenedCheckpoint, tasks: list[str]) -> None:
    """Copy heads and poolings, and the layer that related tasks share in front of their heads."""
    for name in tasks:
        if recipe.tasks[name].head_start != "random":
            raise RecipeError(
                f'tasks.{name}.head_start: encoder.keep names "heads", so the head starts as it was.',
                hint="Leave one of the two out.",
            )
        _refuse_other_head(recipe.tasks[name], former.tasks[name])
        if (name in model.related) != (name in former.model.related):
            raise RecipeError(
                f"encoder.keep: the head of '{name}' follows a relational layer in only one of the two runs.",
                hint="Use the same [relation], or do not keep heads.",
            )
        _copy(model.heads[name], former.model.heads[name], f"the head of '{name}'")
        _copy(model.poolings[name], former.model.poolings[name], f"the pooling of '{name}'")
    if any(name in model.related for name in tasks):
        _copy(model.relation, former.model.relation, "the relational layer")


def _refuse_other_head(new: Task, former: Task) -> None:
    differing = [key for key in COMPARED if getattr(new, key) != getattr(former, key)]
    if differing:
        key = differing[0]
        raise RecipeError(
            f"encoder.keep: the head of '{new.name}' cannot be kept: {key} was {_shown(getattr(former, key))} "
            f"and is now {_shown(getattr(new, key))}.",
            hint=f"Set tasks.{new.name}.{key} as in the former run, give the task another name, or do not keep heads.",
        )


def _shown(value: Any) -> str:
    name = getattr(value, "name", None)
    if name is not None:
        return f"'{name}'"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _keep_adapters(model: MultiTaskModel, recipe: Recipe, former: OpenedCheckpoint, tasks: list[str]) -> None:
    """Copy the adapters of tasks that have one in both runs; an adapter that tasks share is copied once."""
    section, before = recipe.adapters, former.description["adapters"]
    now = None if section is None else section.model_dump(mode="json", exclude={"tasks"})
    then = None if before is None else {key: value for key, value in before.items() if key != "tasks"}
    if now is None or now != then:
        raise RecipeError(
            f"encoder.keep: expected the adapters of {recipe.encoder.name}, {then or 'none'}; found {now or 'none'}.",
            hint="Write the same [adapters] as in the former run, or do not keep adapters.",
        )
    with_both = [name for name in tasks if name in model.adapter_of and name in former.model.adapter_of]
    for name in with_both:
        source = former.model.adapters[former.model.adapter_of[name]]
        _copy(model.adapters[model.adapter_of[name]], source, f"the adapter of '{name}'")


def _copy(target: nn.Module, source: nn.Module, what: str) -> None:
    shapes, found = ({name: value.shape for name, value in each.state_dict().items()} for each in (target, source))
    if shapes != found:
        raise RecipeError(f"encoder.keep: {what} has weights of another shape than in the former run.")
    target.load_state_dict(source.state_dict())
