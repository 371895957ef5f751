"""HeldOut: every way to write a share of the training rows is read, and written again as the same value."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from palbert.recipe.load import dump_recipe, make_recipe
from palbert.tasks.held_out import HeldOut, read_held_out
from palbert.tasks.sets import Marked, files_of
from palbert.tasks.spec import Task

OWN: dict[str, Any] = {"name": "own", "kind": "single", "target": "number", "text": "text", "train": "train.csv"}


def task(**changes: Any) -> Task:
    return Task.model_validate({**OWN, **changes})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("auto", HeldOut()),
        ("10%", HeldOut(share=0.1)),
        (" 12.5 % ", HeldOut(share=0.125)),
        (0.1, HeldOut(share=0.1)),
        (500, HeldOut(rows=500)),
        ("fold 2 of 5", HeldOut(fold=2, folds=5)),
        ({"share": 0.2, "seed": 7}, HeldOut(share=0.2, seed=7)),
        ({"fold": 1, "folds": 3, "seed": 2}, HeldOut(fold=1, folds=3, seed=2)),
    ],
)
def test_a_share_is_read_and_written_again_as_the_same_value(written: Any, meant: HeldOut) -> None:
    assert task(dev=written).held_out == meant
    assert HeldOut.model_validate(read_held_out(meant.short)) == meant


@pytest.mark.parametrize("files", ["dev.csv", ["dev.csv"], {"path": "dev.csv"}, ["a.csv", "b.csv"]])
def test_files_are_not_held_out(files: Any) -> None:
    assert task(dev=files).held_out is None and task(dev=files).dev


def test_a_task_without_dev_files_holds_rows_out() -> None:
    assert task().held_out == HeldOut() and task(dev=[]).held_out == HeldOut()
    assert task(split="part").held_out is None
    assert Task.model_validate({key: value for key, value in OWN.items() if key != "train"}).held_out is None


@pytest.mark.parametrize(
    "wrong",
    ["0%", "100%", 0, 1.5, True, {"share": 0.1, "rows": 5}, {"fold": 1}, "fold 6 of 5", {"shares": 0.1}, "fold 1 of 1"],
)
def test_other_values_are_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        task(dev=wrong)


def test_files_and_held_out_rows_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="dev names files"):
        task(dev="dev.csv", held_out={"share": 0.1})


@pytest.mark.parametrize("dev", [None, "20%", 7, "fold 1 of 4", {"rows": 9, "seed": 3}])
def test_a_written_recipe_holds_the_same_rows_out(dev: Any) -> None:
    values = {"tasks": {"own": {key: value for key, value in OWN.items() if key != "name"} | {"dev": dev}}}
    recipe = make_recipe(values, check_files=False)
    import tomllib

    written = dump_recipe(recipe)
    assert make_recipe(tomllib.loads(written), check_files=False) == recipe
    assert "held_out" not in written  # dev = "20%" says it


def test_train_and_dev_are_read_from_the_same_files() -> None:
    own = task(dev="10%")
    train, dev = files_of(own, "train"), files_of(own, "dev")
    assert train.sources == dev.sources and train.held_out == dev.held_out == own.held_out
    assert files_of(own, "test").sources == ()


def test_training_on_dev_holds_nothing_out_of_train() -> None:
    own = task(dev="10%", train_on_dev=True)
    assert files_of(own, "train").held_out is None and files_of(own, "dev").held_out == own.held_out


def test_a_split_column_says_which_rows_are_whose() -> None:
    own = task(split="part")
    marks = {split: files_of(own, split).marked for split in ("train", "dev", "test")}
    assert marks == {split: Marked("part", (split,)) for split in ("train", "dev", "test")}
    assert files_of(task(split="part", train_on_dev=True), "train").marked == Marked("part", ("train", "dev"))


def test_what_dev_and_test_name_takes_the_place_of_marked_rows() -> None:
    own = task(split="part", dev="10%", test="test.csv")
    assert files_of(own, "dev").marked == files_of(own, "train").marked == Marked("part", ("train",))
    assert files_of(own, "test").marked is None
