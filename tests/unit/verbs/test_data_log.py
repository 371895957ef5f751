"""What the log says about the data: rows, truncated texts, dropped rows, class shares, and overlaps."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from palbert.recipe.load import make_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.train import TrainingJob


def logged(values: dict[str, Any], folder: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level(logging.INFO, logger="palbert.verbs.data_log"):
        TrainingJob(make_recipe(values, folder=folder), RunFolder(folder / "run")).prepare()
    return [record.message for record in caplog.records if record.name == "palbert.verbs.data_log"]


@pytest.fixture
def values(tiny_recipe: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    rows = {"train": [("a good film", 1), ("a bad film", 0), ("", 1), ("a very long and very good film", 1)]}
    rows["dev"] = [("a good film", 1), ("another one", 0)]
    for split, own in rows.items():
        lines = [f"{split}{number}\t{text}\t{label}" for number, (text, label) in enumerate(own)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(["id\tsentence\tlabel", *lines]) + "\n", "utf-8")
    task: dict[str, Any] = {"kind": "single", "target": "binary", "text": "sentence", "label": "label"}
    task |= {"train": "train.tsv", "dev": "dev.tsv", "max_length": 6, "bad_rows": "drop"}
    return {**tiny_recipe, "data": None, "tasks": {"own": task}}


def test_rows_truncations_and_empty_texts_are_counted(
    values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = logged(values, tmp_path, caplog)
    assert "own train: 3 rows, 1 cut at 6 tokens, 1 without text or label left out" in found
    assert "own dev: 2 rows" in found


def test_an_overlap_is_reported_with_the_setting_that_removes_it(
    values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert 'own train: 1 of its rows is also in dev; tasks.own.drop_overlap = ["dev"] leaves them out' in logged(
        values, tmp_path, caplog
    )
    caplog.clear()
    values["tasks"]["own"]["drop_overlap"] = ["dev"]
    found = logged(values, tmp_path, caplog)
    assert any("1 left out because they are in dev" in line for line in found) and not any(
        "also in dev" in line for line in found
    )


def test_class_shares_are_compared_with_the_prior(
    values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values["tasks"]["own"]["prior"] = [0.5, 0.5]
    assert "own train: class shares 33.3% / 66.7%, trained to answer for 50.0% / 50.0%" in logged(
        values, tmp_path, caplog
    )
