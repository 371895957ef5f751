"""Auto: complete a recipe that leaves training open, once its rows are known."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from palbert.data.dataset import Dataset
from palbert.data.training_set import TrainingSet
from palbert.model.heads import Head
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.auto import described, shape_of, with_chosen_settings, with_slow_heads
from palbert.recipe.schema import Recipe
from palbert.verbs.baselines import FrozenEncoder

log = logging.getLogger(__name__)

Sets = Mapping[str, TrainingSet[Dataset]]


def complete(recipe: Recipe, sets: Sets, frozen: FrozenEncoder) -> Recipe:
    """Return the recipe with everything chosen that it leaves open; the same one, unless it is automatic."""
    if not recipe.training.auto:
        return recipe
    rows = sum(len(each) for each in sets.values())
    chosen = _with_shapes(with_chosen_settings(recipe, rows), sets, frozen)
    if "head_learning_rate" not in recipe.optimizer.model_fields_set:
        chosen = with_slow_heads(chosen, rows)
    log.info("%s", described(chosen, rows))
    return chosen


def _with_shapes(recipe: Recipe, sets: Sets, frozen: FrozenEncoder) -> Recipe:
    """Return a recipe with the shape of each task that leaves it open: its pair input, pooling, head and start."""
    if recipe.adapters or recipe.relation or recipe.pretraining or recipe.objectives or recipe.encoder.keep:
        return recipe  # a probe of the plain encoder says nothing about their vectors, and kept heads are better
    tasks = {}
    for name, task in recipe.tasks.items():
        shape = shape_of(task, rows=len(sets[name]), similarity=frozen.tasks[name].similarity)
        if shape.get("head_start") == "probe" and frozen.tasks[name].probe is None:
            shape = {}
        if shape:
            said = {key: getattr(value, "name", value) for key, value in shape.items()}
            log.info("%s: %s", name, ", ".join(f'{key} = "{value}"' for key, value in said.items()))
        tasks[name] = task.model_copy(update=shape)
    return recipe.model_copy(update={"tasks": tasks})


def reshaped(sets: Sets, recipe: Recipe) -> dict[str, TrainingSet[Dataset]]:
    """Return training sets as a completed recipe describes them; their rows stay the same."""
    specs = recipe.sets
    return {
        name: replace(each, siamese=specs[name].siamese, batch_size=recipe.batch_size(specs[name]))
        for name, each in sets.items()
    }


def start_heads(model: MultiTaskModel, recipe: Recipe, frozen: FrozenEncoder) -> None:
    """Let the heads that start from a probe give its answers, and those that start at the mean label answer near it."""
    for name, task in recipe.tasks.items():
        head = cast(Head, model.heads[name])
        probe = frozen.tasks[name].probe if task.head_start == "probe" else None
        if probe is not None:
            head.start(probe.weight, probe.bias)
        elif task.head_start == "mean" and (labels := frozen.train[name].rows.labels) is not None:
            head.start_at(float(labels.mean()))
