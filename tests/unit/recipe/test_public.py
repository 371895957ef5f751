"""Public recipes: names of files without folders, addresses without passwords, and nothing of tracking services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w

from palbert.recipe.load import dump_recipe, load_run_recipe, make_recipe
from palbert.recipe.public import public_names, public_recipe
from palbert.recipe.schema import Recipe

ADDRESS = "https://me:password@files.example.org/a/rows.csv?token=secret"
TASK: dict[str, Any] = {"kind": "single", "target": "classes", "classes": ["no", "yes"], "text": ["text"]}


def private_recipe(folder: Path) -> Recipe:
    return make_recipe(
        {
            "description": "Mine.",
            "encoder": str(folder / "encoders" / "bert"),
            "tasks": {
                "tone": {
                    **TASK,
                    "train": ["a/rows.csv", "b/rows.csv", ADDRESS, "hf:owner/data:train"],
                    "dev": ["dev.csv"],
                    "extra": {"more": {"train": ["c/more.csv"]}},
                    "teachers": ["runs/teacher"],
                }
            },
            "run": {"wandb": "our-project", "mlflow": "our-experiment"},
            "provenance": {
                "data_sha256": {str(folder / "a" / "rows.csv"): "1" * 64, str(folder / "b" / "rows.csv"): "2" * 64},
                "teachers_sha256": {str(folder / "runs" / "teacher"): "3" * 64},
            },
        },
        folder=folder,
        check_files=False,
    )


def test_nothing_of_this_machine_is_left(tmp_path: Path) -> None:
    text = dump_recipe(public_recipe(private_recipe(tmp_path)))
    for private in (str(tmp_path), "password", "secret", "our-project", "our-experiment"):
        assert private not in text
    assert "https://files.example.org/a/rows.csv" in text and "hf:owner/data:train" in text


def test_files_of_the_same_name_stay_apart_and_keep_their_hashes(tmp_path: Path) -> None:
    public = public_recipe(private_recipe(tmp_path))
    paths = [source.path for source in public.tasks["tone"].train]
    assert paths[:2] == ["rows.csv", "2-rows.csv"]
    assert public.provenance is not None
    assert public.provenance.data_sha256 == {"rows.csv": "1" * 64, "2-rows.csv": "2" * 64}
    assert public.provenance.teachers_sha256 == {"teacher": "3" * 64}
    assert public.encoder.name == "bert"
    assert len(set(public_names(private_recipe(tmp_path)).values())) == len(public_names(private_recipe(tmp_path)))


def test_a_public_recipe_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "recipe.toml"
    file.parent.mkdir()
    file.write_text(dump_recipe(public_recipe(private_recipe(tmp_path))), "utf-8")
    read = load_run_recipe(file)
    assert read.tasks["tone"].classes == ("no", "yes")
    assert read.tasks["tone"].dev[0].path == str(file.parent / "dev.csv")


def test_classes_that_look_like_paths_are_not_changed(tmp_path: Path) -> None:
    values = {"tasks": {"tone": {**TASK, "classes": ["/a/b", "/c/d"], "train": ["/a/b.csv"], "dev": ["/d.csv"]}}}
    recipe = make_recipe(values, folder=tmp_path, check_files=False)
    assert tomli_w.dumps(public_recipe(recipe).tasks["tone"].model_dump(include={"classes"})).count("/a/b") == 1
