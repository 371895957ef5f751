"""palbert compare: signs, identical runs, and rows that do not match."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import DataError

Cli = Callable[..., Any]


def rewrite(run: Path, task: str, change: Callable[[list[dict[str, str]]], list[dict[str, str]]]) -> None:
    """Change the prediction file of a task."""
    path = run / "predictions" / f"{task}-dev.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    changed = change(rows)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(changed)


@pytest.fixture
def perfect(trained: Path, tmp_path: Path) -> Path:
    """Return the run with every prediction corrected."""
    run = Path(shutil.copytree(trained, tmp_path / "perfect"))
    for task in ("sst", "quora", "sts"):
        rewrite(run, task, lambda rows: [{**row, "prediction": row["gold"]} for row in rows])
    return run


def test_a_better_run_has_a_positive_difference_that_is_significant(
    trained: Path, perfect: Path, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    before = snapshot(trained)
    scores = json.loads(before["report.json"])["tasks"]
    for item, metric in zip(palbert.compare([trained, perfect]), ("accuracy", "accuracy", "pearson"), strict=True):
        assert (item.metric, item.score) == (metric, pytest.approx(1.0))
        assert item.reference_score == pytest.approx(scores[item.task][metric], abs=1e-5)
        assert item.difference.difference == pytest.approx(1 - item.reference_score)
        assert 0 < item.difference.low <= item.difference.difference <= item.difference.high
        assert item.difference.p_value < 0.01
    assert snapshot(trained) == before


def test_swapping_the_runs_flips_the_sign(trained: Path, perfect: Path) -> None:
    up, down = palbert.compare([trained, perfect]), palbert.compare([perfect, trained])
    for first, second in zip(up, down, strict=True):
        assert first.difference.difference == pytest.approx(-second.difference.difference)
        assert first.difference.low == pytest.approx(-second.difference.high)
        assert first.difference.p_value == pytest.approx(second.difference.p_value)
        assert (first.score, first.reference) == (second.reference_score, second.run)


def test_identical_runs_have_a_difference_of_0(trained: Path, run_copy: Path) -> None:
    compared = palbert.compare([trained, run_copy])
    assert [item.task for item in compared] == ["sst", "quora", "sts"]
    for item in compared:
        difference = item.difference
        assert (difference.difference, difference.low, difference.high, difference.p_value) == (0, 0, 0, 1)


def test_three_runs_are_compared_with_the_first(trained: Path, perfect: Path, run_copy: Path) -> None:
    compared = palbert.compare([trained, perfect, run_copy])
    assert [item.run for item in compared] == [str(perfect)] * 3 + [str(run_copy)] * 3
    assert {item.reference for item in compared} == {str(trained)}


def test_the_command_prints_a_table_or_json(trained: Path, perfect: Path, cli: Cli) -> None:
    result = cli("compare", trained, perfect, "--json")
    assert result.code == 0
    for printed, item in zip(json.loads(result.out), palbert.compare([trained, perfect]), strict=True):
        assert printed["task"] == item.task
        assert printed["difference"]["difference"] == item.difference.difference
    table = cli("compare", trained, perfect)
    lines = table.out.splitlines()
    assert table.code == 0 and len(lines) == 4
    for line, item in zip(lines[1:], palbert.compare([trained, perfect]), strict=True):
        fields = line.split()
        assert fields[:6] == [item.task, item.metric, str(perfect), f"{item.reference_score:.4f}", f"{item.score:.4f}",
                              f"{item.difference.difference:+.4f}"]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:-1],
        lambda rows: rows[::-1],
        lambda rows: [{**row, "id": f"x{row['id']}"} for row in rows],
        lambda rows: [{**row, "gold": "neutral"} for row in rows],
    ],
    ids=["one row less", "another order", "other ids", "other labels"],
)
def test_runs_scored_on_different_rows_are_refused(change: Any, trained: Path, run_copy: Path, cli: Cli) -> None:
    rewrite(run_copy, "sst", change)
    result = cli("compare", trained, run_copy)
    assert (result.code, result.out) == (2, "")
    assert f"{trained} and {run_copy} were scored on different sst rows" in result.err
    assert "Evaluate both on the same files." in result.err


def test_predictions_with_unknown_classes_are_refused(trained: Path, run_copy: Path, cli: Cli) -> None:
    rewrite(run_copy, "sst", lambda rows: [{**row, "prediction": "wonderful"} for row in rows])
    result = cli("compare", trained, run_copy)
    assert result.code == 2
    assert "sst-dev.csv, row 1: not a prediction of this task's target: there is no class 'wonderful'" in result.err


def test_missing_predictions_are_reported_with_the_command_that_makes_them(
    trained: Path, run_copy: Path, cli: Cli
) -> None:
    result = cli("compare", trained, run_copy, "--split", "train")
    assert result.code == 2
    assert f"Make it with: palbert evaluate {trained} --split train" in result.err
    shutil.rmtree(run_copy / "predictions")
    result = cli("compare", trained, run_copy)
    assert result.code == 2
    assert f"{run_copy}: no predictions here." in result.err and f"palbert evaluate {run_copy}" in result.err


def test_runs_without_a_common_task_are_refused(trained: Path, run_copy: Path) -> None:
    text = (run_copy / "recipe.toml").read_text("utf-8")
    for task in ("sst", "quora", "sts"):
        text = text.replace(f"[tasks.{task}", f"[tasks.other-{task}")
    (run_copy / "recipe.toml").write_text(text, "utf-8")
    with pytest.raises(DataError, match="have no task in common"):
        palbert.compare([trained, run_copy])


def test_comparing_a_single_run_is_refused(trained: Path, cli: Cli) -> None:
    result = cli("compare", trained)
    assert result.code == 2
    assert result.err == "error: Expected two or more runs to compare, found fewer.\n  palbert compare runs/a runs/b\n"


def test_runs_with_other_classes_for_a_task_are_refused(trained: Path, run_copy: Path, cli: Cli) -> None:
    recipe = run_copy / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace('"duplicate"', '"same"'), "utf-8")
    result = cli("compare", trained, run_copy)
    assert result.code == 2 and "have different answers for 'quora'" in result.err
    assert "duplicate" in result.err and "same)" in result.err and "list them in both recipes" in result.err


def test_runs_scored_on_different_texts_are_refused(trained: Path, run_copy: Path, cli: Cli) -> None:
    rewrite(run_copy, "sst", lambda rows: [{**row, "text": f"{row['text']} again"} for row in rows])
    result = cli("compare", trained, run_copy)
    assert result.code == 2 and "were scored on different sst rows" in result.err
