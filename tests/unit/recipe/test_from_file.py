"""A data file in place of a recipe: a task named after it, with everything inferred."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.errors import RecipeError
from palbert.recipe.from_file import columns_as_overrides, is_data_file, run_name, task_name
from palbert.recipe.load import load_recipe
from palbert.tasks.held_out import HeldOut


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("reviews.csv", "reviews"),
        ("My reviews (2024).TSV", "My-reviews-2024"),
        ("a/b/x.jsonl", "x"),
        ("reviews.csv.gz", "reviews"),
        ("über.parquet", "ber"),
        ("__.csv", "task"),
        ("v1.2.csv", "v1-2"),
    ],
)
def test_a_task_is_named_after_its_file(file: str, name: str) -> None:
    assert is_data_file(file) and task_name(file) == run_name(file) == name
    assert not is_data_file("reviews.toml") and run_name("recipes/my.reviews.toml") == "my.reviews"


def test_a_file_is_a_recipe_with_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my reviews.csv").write_text("review,stars\nGood film,5\nBad film,1\nFine film,5\nPoor film,1\n")
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("my reviews.csv", overrides=["training.epochs=1"])
    assert recipe.training.auto and recipe.training.epochs == 1
    task = recipe.tasks["my-reviews"]
    assert task.train[0].path == str(tmp_path / "my reviews.csv") and task.held_out == HeldOut()
    assert (task.text, task.label, task.classes) == (("review",), "stars", ("1", "5"))


def test_columns_and_test_rows_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("a,b,grade,day\nx y,z z,1.5,2\nu v,w w,2.5,3\n")
    (tmp_path / "test.csv").write_text("a,b\nx,y\n")
    monkeypatch.chdir(tmp_path)
    settings = columns_as_overrides("data/rows.csv", text=["a", "b"], label="grade", test=Path("test.csv"))
    task = load_recipe("data/rows.csv", overrides=settings).tasks["rows"]
    assert (task.kind, task.target.name, task.label) == ("pair", "number", "grade")
    assert task.test[0].path == str(tmp_path / "test.csv")


def test_columns_are_for_data_files() -> None:
    assert columns_as_overrides("my.toml") == []
    with pytest.raises(RecipeError, match="--label is for a data file"):
        columns_as_overrides("my.toml", label="stars")


def test_a_file_that_does_not_exist_is_not_taken_for_a_recipe(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"No such file: .*none.csv$"):
        load_recipe(tmp_path / "none.csv")
