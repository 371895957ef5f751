"""A recipe in Python: plain dicts that give what the same TOML file gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import pytest

import palbert
from palbert.errors import RecipeError
from palbert.recipe import schema, typed
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.tasks import spec


def test_a_typed_recipe_gives_what_the_same_file_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_text("review,stars\ngood,1\nbad,0\n")
    (tmp_path / "recipe.toml").write_text(
        'data = "samples"\nencoder = "minilm"\n[tasks.sst]\n[tasks.tone]\ntext = "review"\nlabel = "stars"\n'
        'kind = "single"\ntarget = "binary"\n'
        f'train = "{tmp_path}/x.csv"\ndev = ["{tmp_path}/x.csv"]\n[training]\nepochs = 5\nsampler = "mixed"\n'
    )
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "x.csv"
    recipe = palbert.Recipe(
        data="samples",
        encoder="minilm",
        tasks={
            "sst": palbert.Task(),
            "tone": palbert.Task(
                kind="single", target="binary", text="review", label="stars", train=file, dev=[{"path": file}]
            ),
        },
        training=palbert.Training(epochs=5, sampler={"name": "mixed"}),
    )
    assert make_recipe(recipe) == load_recipe(recipe) == load_recipe("recipe.toml")
    assert dump_recipe(load_recipe(recipe)) == dump_recipe(load_recipe("recipe.toml"))


def test_all_problems_of_a_typed_recipe_are_reported_at_once() -> None:
    task: Any = palbert.Task(text=("a", "b"), kind="single", target="classes")
    recipe = palbert.Recipe(tasks={"tone": task}, training={"epochs": 0}, optimizer=palbert.Optimizer(learning_rate=-1))
    with pytest.raises(RecipeError) as error:
        palbert.train(recipe)
    for place in ("tasks.tone", "training.epochs", "optimizer.learning_rate"):
        assert f"recipe: {place}" in str(error.value)


def test_paths_start_at_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_text("review,stars\ngood,1\nbad,0\n")
    monkeypatch.chdir(tmp_path)
    task = palbert.Task(kind="single", target="binary", text="review", label="stars", train="x.csv", dev="x.csv")
    found = load_recipe(palbert.Recipe(tasks={"tone": task})).tasks["tone"]
    assert found.train[0].path == str(tmp_path / "x.csv")


def test_a_typed_recipe_has_the_settings_of_the_schema() -> None:
    assert set(get_type_hints(typed.Recipe)) == set(schema.Recipe.model_fields) - {"provenance"}
    assert set(get_type_hints(typed.Task)) == set(spec.Task.model_fields) - {"name"}
