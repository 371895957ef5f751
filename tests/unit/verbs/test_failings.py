"""Failings: where predictions are wrong, from what an evaluation has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.recipe.load import make_recipe
from palbert.reporting.wording import Score
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task
from palbert.verbs.failings import FEWEST, failings_of


def task_of(**values: object) -> Task:
    task = {"kind": "single", "text": ["text"], "train": ["a.csv"], "dev": ["b.csv"], **values}
    return make_recipe({"tasks": {"tone": task}}, check_files=False).tasks["tone"]


def write(folder: Path, rows: list[str], header: str) -> RunFolder:
    place = RunFolder(folder)
    place.predictions.mkdir()
    (place.predictions / "tone-dev.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return place


def test_short_rows_are_told_from_long_ones(tmp_path: Path) -> None:
    # All short rows are wrong, all others right.
    rows = [f"{i},yes,{'no' if i < 12 else 'yes'},0.5,0.5,{'word ' * (2 if i < 12 else i)}" for i in range(36)]
    place = write(tmp_path, rows, "id,gold,prediction,p(no),p(yes),text")
    found = failings_of(
        place, task_of(target="classes", classes=["no", "yes"]), [Score("accuracy", 24 / 36)], {}, split="dev"
    )
    assert found is not None and found.slice_measure == "share right"
    assert [each.value for each in found.slices] == [0.0, 1.0, 1.0]
    assert sum(each.rows for each in found.slices) == 36
    assert dict(found.classes)["yes"].support == 36
    assert found.examples == []


def test_numbers_have_their_mean_error(tmp_path: Path) -> None:
    rows = [f"{i},1.0,{1.5 if i < 12 else 1.25},{'word ' * (1 + i // 12)}" for i in range(36)]
    place = write(tmp_path, rows, "id,gold,prediction,text")
    task = task_of(target="number", range=[0.0, 5.0])
    found = failings_of(place, task, [Score("mse", 0.1)], {}, split="dev", examples=2)
    assert found is not None and found.slice_measure == "mean absolute error"
    assert [each.value for each in found.slices] == pytest.approx([0.5, 0.25, 0.25])
    assert len(found.examples) == 2 and found.examples[0].measure == "+0.50"


def test_few_rows_have_no_slices_and_absent_predictions_no_failings(tmp_path: Path) -> None:
    rows = [f"{i},yes,yes,0.5,0.5,{'word ' * i}" for i in range(FEWEST - 1)]
    place = write(tmp_path, rows, "id,gold,prediction,p(no),p(yes),text")
    task = task_of(target="classes", classes=["no", "yes"])
    found = failings_of(place, task, [Score("accuracy", 1.0)], {}, split="dev")
    assert found is not None and not found.slices
    assert failings_of(place, task, [Score("accuracy", 1.0)], {}, split="test") is None
