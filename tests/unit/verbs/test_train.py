"""The function palbert.train: where runs go, what is refused before anything is written, and the report at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import RecipeError, RunFolderError

pytestmark = pytest.mark.usefixtures("no_plots")


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    training = {**tiny_recipe["training"], "epochs": 1, "steps_per_epoch": 1}
    return {**tiny_recipe, "tasks": {"sst": {}}, "training": training}


def test_a_run_is_written_to_a_folder_named_after_its_recipe(
    values: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert palbert.train(write_recipe(values, "mine.toml")) == Path("runs/mine")
    assert palbert.train(palbert.make_recipe(values)) == Path("runs/run")
    assert palbert.train(palbert.make_recipe(values), out="elsewhere") == Path("elsewhere")
    for folder in (Path("runs/mine"), Path("runs/run"), Path("elsewhere")):
        assert json.loads((folder / "report.json").read_text("utf-8"))["checkpoint"] == "best"


def test_overrides_become_settings_of_the_recipe(
    values: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path
) -> None:
    run = palbert.train(write_recipe(values), out=tmp_path / "run", overrides=["seed=7"])
    assert palbert.load_recipe(run / "recipe.toml").seed == 7


def test_a_run_is_replaced_only_with_force(values: dict[str, Any], tmp_path: Path) -> None:
    recipe = palbert.make_recipe(values)
    run = palbert.train(recipe, out=tmp_path / "run")
    with pytest.raises(RunFolderError, match="already holds a run"):
        palbert.train(recipe, out=run)
    (run / "checkpoints" / "best-other").mkdir()
    palbert.train(recipe, out=run, force=True)
    assert not (run / "checkpoints" / "best-other").exists()


def test_force_with_an_unusable_recipe_keeps_the_old_folder(
    values: dict[str, Any], tmp_path: Path, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    run = palbert.train(palbert.make_recipe(values), out=tmp_path / "run")
    before = snapshot(run.path)
    values["tasks"]["sst"] = {"max_length": 129}  # more than the encoder's
    with pytest.raises(RecipeError):
        palbert.train(palbert.make_recipe(values), out=run, force=True)
    assert snapshot(run.path) == before
