"""The schema: every name it admits is in a table of classes, and every field says what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pydantic import BaseModel

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import EncoderSection, OptimizerSection, Provenance, RunSection, TrainingSection
from palbert.registry import (
    ADAPTERS,
    AVERAGES,
    BALANCES,
    GRADIENTS,
    HEADS,
    LOSSES,
    METRICS,
    OBJECTIVES,
    POOLINGS,
    RELATIONS,
    SAMPLERS,
    SCHEDULES,
    TARGETS,
)
from palbert.tasks.choices import Component
from palbert.tasks.sources import Source
from palbert.tasks.spec import Task

Change = Callable[[str], dict[str, Any]]

TABLES: dict[str, tuple[Change, Iterable[str]]] = {
    "sampler": (lambda name: {"training": {"sampler": name}}, SAMPLERS),
    "gradients": (lambda name: {"training": {"gradients": name}}, GRADIENTS),
    "average": (lambda name: {"training": {"average": name}}, AVERAGES),
    "balance": (lambda name: {"training": {"balance": name}}, BALANCES),
    "objectives": (lambda name: {"objectives": [name]}, OBJECTIVES),
    "schedule": (lambda name: {"optimizer": {"schedule": name}}, SCHEDULES),
    "adapters": (lambda name: {"adapters": name}, ADAPTERS),
    "relation": (lambda name: {"relation": {"name": name, "tasks": ["sst", "sts"]}}, RELATIONS),
    "head": (lambda name: {"tasks": {"sst": {"head": name}}}, HEADS),
    "pooling": (lambda name: {"tasks": {"sst": {"pooling": name}}}, POOLINGS),
    "target": (lambda name: {"tasks": {"sst": {"target": name}}}, TARGETS),
    "loss": (lambda name: {"tasks": {"sst": {"loss": name}}}, LOSSES),
}


@pytest.mark.parametrize("choice", TABLES)
def test_the_names_of_a_choice_are_those_of_its_table(choice: str) -> None:
    change, table = TABLES[choice]
    with pytest.raises(RecipeError) as caught:
        make_recipe({"data": "samples", "tasks": ["sst"], **change("no-such-name")})
    assert f"unknown name 'no-such-name'. Known: {', '.join(sorted(table))}." in str(caught.value)


def test_every_target_has_a_loss_that_exists() -> None:
    assert {name for target in TARGETS.values() for name in target.losses} == set(LOSSES)


def test_every_metric_fits_a_target() -> None:
    fitting = {name for target in TARGETS.values() for name in (*target.metrics, *target.other_metrics)}
    assert fitting == set(METRICS)


@pytest.mark.parametrize(
    "model",
    [Component, EncoderSection, OptimizerSection, Provenance, Recipe, RunSection, Source, Task, TrainingSection],
    ids=lambda model: model.__name__,
)
def test_every_field_says_what_it_is(model: type[BaseModel]) -> None:
    silent = [name for name, field in model.model_fields.items() if not field.description]
    assert silent == []


def test_a_tasks_batch_size_stands_above_the_recipes() -> None:
    recipe = make_recipe(
        {"data": "samples", "tasks": {"sst": {"batch_size": 4}, "sts": {}}, "training": {"batch_size": 9}}
    )
    assert {name: recipe.batch_size(spec) for name, spec in recipe.sets.items()} == {"sst": 4, "sts": 9}


def test_tasks_stay_in_the_recipes_order() -> None:
    assert list(make_recipe({"data": "samples", "tasks": ["sts", "sst", "quora"]}).tasks) == ["sts", "sst", "quora"]
