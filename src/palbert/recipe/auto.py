"""Auto: epochs, batch size, rates and schedule, chosen for the number of training rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from palbert.tasks.choices import Component

if TYPE_CHECKING:
    from palbert.recipe.schema import Recipe
    from palbert.tasks.spec import Task

CHOSEN: dict[str, tuple[str, ...]] = {
    "training": ("epochs", "steps_per_epoch", "batch_size"),
    "optimizer": ("learning_rate", "head_learning_rate", "adapter_learning_rate", "schedule"),
}
"""The settings of each section that are chosen where a recipe sets none of them."""
SHAPE = ("pair_input", "pooling", "head", "head_start")
"""The settings of a task that are chosen where the task sets none of them."""

PASSES = ((200, 20.0), (1_000, 10.0), (5_000, 5.0), (50_000, 3.0), (200_000, 2.0), (math.inf, 1.0))
"""How often each row is seen, by the largest number of rows that it is for."""
FEWEST_STEPS = 80
"""A run has at least so many steps, however few its rows are."""
EVALUATIONS = 10
"""A small set is evaluated so often; where its passes are fewer, after each of them."""
FEW_ROWS = 200
"""Up to so many training rows, heads that start as probes move as slowly as the encoder."""
JOINT_ROWS = 5_000
"""From so many training rows on, both texts of a pair are read as one sequence."""


def is_open(values: Mapping[str, Any]) -> bool:
    """Return whether a recipe's values say nothing about how long and how fast to train."""
    if values.get("phases"):
        return False
    sections = {name: {} if values.get(name) is None else values[name] for name in CHOSEN}
    return all(
        isinstance(section, Mapping) and not any(key in section for key in (*CHOSEN[name], "auto"))
        for name, section in sections.items()
    )


def without_open(values: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return the values of an automatic recipe without those that are still to be chosen; of any other, all values."""
    if not recipe.training.auto:
        return values
    chosen = {name: _given(values[name], keys, getattr(recipe, name)) for name, keys in CHOSEN.items()}
    tasks = {name: _given(values["tasks"][name], SHAPE, task) for name, task in recipe.tasks.items()}
    return {**values, **chosen, "tasks": tasks}


def _given(values: dict[str, Any], keys: Sequence[str], section: BaseModel) -> dict[str, Any]:
    """Leave out those of the keys that a section has by default."""
    return {key: value for key, value in values.items() if key not in keys or key in section.model_fields_set}


def settings_for(rows: int) -> dict[str, dict[str, Any]]:
    """Return the settings for a number of training rows of all sets together, by section."""
    batch_size = 8 if rows <= 200 else 16 if rows <= 5_000 else 32
    passes = next(passes for most, passes in PASSES if rows <= most)
    steps = max(FEWEST_STEPS, math.ceil(rows / batch_size * passes))
    epochs = EVALUATIONS if passes >= EVALUATIONS else max(2, round(passes))
    return {
        "training": {"epochs": epochs, "steps_per_epoch": math.ceil(steps / epochs), "batch_size": batch_size},
        "optimizer": {"learning_rate": 3e-5, "head_learning_rate": 1e-3, "schedule": Component(name="stlr")},
    }


def with_chosen_settings(recipe: Recipe, rows: int) -> Recipe:
    """Return a recipe whose open settings are those for a number of training rows; it is no longer automatic."""
    updates = {}
    settings = settings_for(rows)
    if "epochs" in recipe.training.model_fields_set:
        del settings["training"]["steps_per_epoch"]  # an epoch is a pass over the rows
    for name, chosen in settings.items():
        section = getattr(recipe, name)
        missing = {key: value for key, value in chosen.items() if key not in section.model_fields_set}
        updates[name] = section.model_copy(update=missing)
    updates["training"] = updates["training"].model_copy(update={"auto": False})
    return recipe.model_copy(update=updates)


def with_slow_heads(recipe: Recipe, rows: int) -> Recipe:
    """Return a recipe whose heads move at the rate of the encoder, if they start as probes of few rows.

    A high rate would undo such a start within a few steps (arXiv:2202.10054 trains both at one rate).
    """
    if rows > FEW_ROWS or not all(task.head_start == "probe" for task in recipe.tasks.values()):
        return recipe
    return recipe.model_copy(update={"optimizer": recipe.optimizer.model_copy(update={"head_learning_rate": None})})


def shape_of(task: Task, *, rows: int, similarity: float | None) -> dict[str, Any]:
    """Return how a task's texts become an answer, for a number of its training rows; empty if the task says so itself.

    Args:
        task: The task.
        rows: Its training rows.
        similarity: The highest label, if the plain cosine of a pair predicts labels as well as a linear probe does.
    """
    if any(key in task.model_fields_set for key in SHAPE):
        return {}
    if task.kind == "single":
        return {"pooling": Component(name="mean"), "head_start": "probe"}
    if rows >= JOINT_ROWS and similarity is None:
        return {"head_start": "mean"} if task.target.numeric else {}
    head = Component(name="compare")
    if similarity is not None:
        head = Component(name="cosine") if task.range else Component(name="cosine", scale=similarity)
    return {"pair_input": "siamese", "pooling": Component(name="mean"), "head": head, "head_start": "probe"}


def described(recipe: Recipe, rows: int) -> str:
    """Describe the chosen settings in one line of the log."""
    training, optimizer = recipe.training, recipe.optimizer
    steps = "" if training.steps_per_epoch is None else f" of {training.steps_per_epoch:,} steps"
    head = f" (heads {optimizer.head_learning_rate:g})" if optimizer.head_learning_rate else ""
    return (
        f"training: {training.epochs} epoch{'s' * (training.epochs != 1)}{steps}, batch {training.batch_size}, "
        f"rate {optimizer.learning_rate:g}{head}, schedule {optimizer.schedule.name}, chosen for {rows:,} rows"
    )
