"""Fixtures of the training tests: small runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.runtime.run_folder import RunFolder
from palbert.verbs import train as verb

MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def recipe(tiny_recipe: dict[str, Any]) -> MakeRecipe:
    """Return a function that makes the tiny recipe, with sections changed."""

    def make(**changes: Any) -> Recipe:
        values = copy.deepcopy(tiny_recipe)
        for key, value in changes.items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
        return make_recipe(values)

    return make


@pytest.fixture
def start(recipe: MakeRecipe, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that builds a run that is ready to fit."""

    def build(folder: str = "run", *, resume: bool = False, **changes: Any) -> Any:
        return verb.TrainingJob(recipe(**changes), RunFolder(tmp_path / folder), resume=resume).prepare()

    return build
