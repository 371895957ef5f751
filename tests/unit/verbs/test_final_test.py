"""Test rows: labelled ones are scored at the end of training, and shown apart from dev."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import palbert

ROWS = [(f"the film number {number}", "good" if number % 2 else "bad") for number in range(24)]


def write(path: Path, rows: Sequence[tuple[str, ...]], header: tuple[str, ...] = ("text", "label")) -> str:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return str(path)


def run(folder: Path, tiny_recipe: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Train one task for a step and return its report."""
    own = {"train": write(folder / "own.csv", ROWS), **settings}
    values = {**tiny_recipe, "data": None, "tasks": {"own": own}, "training": {"epochs": 1, "steps_per_epoch": 1}}
    palbert.train({key: value for key, value in values.items() if value is not None}, out=folder / "run")
    report: dict[str, Any] = json.loads((folder / "run" / "report.json").read_text())
    return report


def test_labelled_test_rows_are_scored_and_shown_apart(tmp_path: Path, tiny_recipe: dict[str, Any]) -> None:
    report = run(tmp_path, tiny_recipe, test=write(tmp_path / "test.csv", ROWS[:7]))
    assert report["rows"] == {"own": {"train": 18, "dev": 6}} and report["split"] == "dev"
    test = report["test"]
    assert test["rows"] == {"own": 7} and test["metrics"] == {"own": "accuracy"}
    assert test["overall"] == test["tasks"]["own"]["accuracy"]
    assert (tmp_path / "run" / "predictions" / "own-test.csv").is_file()
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert '<section id="test">' in page
    assert palbert.evaluate(tmp_path / "run", split="test").summary["tasks"] == test["tasks"]
    assert palbert.evaluate(tmp_path / "run").summary["test"] == test
    assert "test" not in palbert.evaluate(tmp_path / "run", checkpoint="best-own").summary


def test_test_rows_without_labels_are_left_alone(tmp_path: Path, tiny_recipe: dict[str, Any]) -> None:
    rows: list[tuple[str, ...]] = [(text,) for text, _ in ROWS[:5]]
    report = run(tmp_path, tiny_recipe, test=write(tmp_path / "test.csv", rows, ("text",)))
    assert "test" not in report and '<section id="test">' not in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_wrong_test_rows_are_a_warning_after_training(
    tmp_path: Path, tiny_recipe: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        report = run(tmp_path, tiny_recipe, test=write(tmp_path / "test.csv", [("a film", "ugly")]))
    assert "test" not in report
    assert "own test: the rows are not scored" in caplog.text and 'found "ugly"' in caplog.text


def test_rows_that_a_column_marks_as_test_are_scored(tmp_path: Path, tiny_recipe: dict[str, Any]) -> None:
    marks = ["train"] * 12 + ["dev"] * 6 + ["test"] * 6
    rows = [(*row, mark) for row, mark in zip(ROWS, marks, strict=True)]
    file = write(tmp_path / "marked.csv", rows, ("text", "label", "part"))
    report = run(tmp_path, tiny_recipe, train=file, split="part")
    assert report["rows"] == {"own": {"train": 12, "dev": 6}} and report["test"]["rows"] == {"own": 6}
