"""Tune: what is refused before anything is trained, and the object that a search becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tuned import SPACE, quick_values

import palbert
from palbert.errors import MissingExtraError, PalbertError, RecipeError, RunFolderError
from palbert.recipe.load import load_recipe
from palbert.runtime.distributed import Ranks

pytestmark = pytest.mark.usefixtures("no_plots")


@pytest.fixture(scope="module")
def tuned(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> palbert.Tuned:
    """Search once for all tests that only read."""
    folder = tmp_path_factory.mktemp("tuned")
    values = quick_values(folder, tiny_encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "matplotlib", None)
        return palbert.tune(values, space=SPACE, trials=2, confirm=1, out=folder / "out")


def test_a_search_is_an_object_with_the_best_run_and_recipe(tuned: palbert.Tuned) -> None:
    summary = json.loads((tuned.path / "tune.json").read_text("utf-8"))
    assert tuned.summary == summary == palbert.Tuned(tuned.path).summary
    assert tuned.score == summary["best"]["score"] == tuned.best.report["overall"]
    assert tuned.parameters == summary["best"]["parameters"]
    recipe = load_recipe(tuned.recipe)
    assert recipe.training.epochs == tuned.parameters["training.epochs"] and recipe.seed == 1
    assert "optimizer.learning_rate" in repr(tuned) and "With fresh seeds" in repr(tuned)
    assert tuned._repr_html_().startswith("<table>") and "report.html" in tuned._repr_html_()
    assert len(tuned.trials.rows) == 2


def test_a_folder_without_a_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="there is no search here"):
        palbert.Tuned(tmp_path)


def test_a_search_is_not_replaced_and_not_continued_with_other_settings(tuned: palbert.Tuned, tmp_path: Path) -> None:
    settings = json.loads((tuned.path / "search.json").read_text("utf-8"))["palbert_search"]
    values = quick_values(tuned.path.parent, Path(load_recipe(tuned.recipe).encoder.name))
    with pytest.raises(RunFolderError, match="already holds a search"):
        palbert.tune(values, space=SPACE, out=tuned.path)
    other = {**SPACE, "training.epochs": [2, 3]}
    for changes, named in (
        ({"space": other}, "another space"),
        ({"seed": 7}, "another seed"),
        ({"overrides": ["training.clip=2.0"]}, "another recipe"),
    ):
        with pytest.raises(RunFolderError, match=named):
            palbert.tune(values, **{"space": SPACE, "out": tuned.path, "resume": True, **changes})  # type: ignore[arg-type]
    rows = tuned.path.parent / "own.jsonl"
    former = rows.read_text("utf-8")
    rows.write_text(former + former.splitlines()[0] + "\n", "utf-8")
    try:
        with pytest.raises(RunFolderError, match=r"another the content of .*own\.jsonl"):
            palbert.tune(values, space=SPACE, out=tuned.path, resume=True)
    finally:
        rows.write_text(former, "utf-8")
    assert json.loads((tuned.path / "search.json").read_text("utf-8"))["palbert_search"] == settings


def test_a_wrong_space_or_recipe_leaves_nothing_behind(tmp_path: Path, tiny_recipe: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=r"Did you mean training\.epochs"):
        palbert.tune(tiny_recipe, space={"training.epoch": [1, 2]}, out=tmp_path / "out")
    with pytest.raises(RecipeError, match="no such file"):
        palbert.tune(tiny_recipe, space=tmp_path / "nowhere.toml", out=tmp_path / "out")
    with pytest.raises(RecipeError, match="unknown key"):
        palbert.tune({**tiny_recipe, "trainig": {}}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_torchrun_and_a_missing_optuna_are_refused(
    tmp_path: Path, tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(PalbertError, match="without torchrun"):
        patch.setattr("palbert.verbs.tune.find_ranks", lambda: Ranks(0, 2))
        palbert.tune(tiny_recipe, out=tmp_path / "out")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"palbert\[tune\]"):
        palbert.tune(tiny_recipe, out=tmp_path / "out")
