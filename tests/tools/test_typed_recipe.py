"""The tool that writes the typed dicts of a recipe from the schema."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "typed_recipe.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("typed_recipe", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wider_types_are_given_for_settings_that_exist(tool: Any) -> None:
    known = {(tool.name_of(model), field) for model in tool.models(tool.Recipe) for field in model.model_fields}
    assert set(tool.WIDER) <= known


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (tuple[str, ...], "Sequence[str]"),
        (tuple[float, float] | None, "Sequence[float] | None"),
        (dict[str, int | str], "Mapping[str, int | str]"),
    ],
)
def test_types_are_written_as_what_a_recipe_may_give(tool: Any, annotation: Any, text: str) -> None:
    assert tool.written(annotation) == text
