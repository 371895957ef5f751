"""palbert train, demo and recipes: scores on stdout, progress on stderr, and where runs go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.commands.train import QUESTIONS
from palbert.recipe.load import load_recipe

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


def test_recipes_lists_builtin_recipes_and_those_in_the_current_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = "My own recipe, with a description that is a good deal longer than a terminal is wide, " * 2
    (tmp_path / "recipes" / "mine").mkdir(parents=True)
    (tmp_path / "recipes" / "mine" / "one.toml").write_text(f'description = "{description}"\n')
    (tmp_path / "recipes" / "bad.toml").write_text("[")
    monkeypatch.chdir(tmp_path)
    result = cli("recipes")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["recipe", "what", "it", "does"]
    assert any(line.startswith("demo ") for line in lines)
    assert any(line.startswith("recipes/mine/one.toml") and description.strip() in line for line in lines)
    assert any(line.startswith("recipes/bad.toml") and "not valid TOML" in line for line in lines)


def test_train_prints_scores_on_stdout_and_progress_on_stderr(
    tiny_recipe: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, cli: Cli
) -> None:
    run = tmp_path / "run"
    result = cli(
        "train", write_recipe({**tiny_recipe, "tasks": {"sst": {}}}), "--out", run, "--set", "training.epochs=1"
    )
    assert result.code == 0
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert f"Overall {report['overall']:.4f} = sst.accuracy" in result.out
    assert result.out.rstrip().endswith(f"Report: {run / 'report.html'}")
    assert "sst train: 385 rows" in result.err and f"{report['overall']:.4f}  best" in result.err
    assert "epoch" not in result.out.partition("Overall")[0]


def test_train_writes_to_runs_and_the_name_of_the_recipe_by_default(
    tiny_recipe: dict[str, Any],
    write_recipe: Callable[..., Path],
    tmp_path: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    values = {**tiny_recipe, "tasks": {"sst": {}}}
    result = cli("train", write_recipe(values, "quick.toml"), "--set", "training={epochs=1,steps_per_epoch=1}")
    assert result.code == 0
    assert (tmp_path / "runs" / "quick" / "report.json").is_file()


def test_demo_trains_reports_and_answers_three_questions(
    tiny_encoder: Path, tmp_path: Path, cli: Cli, trained: Path
) -> None:
    run = tmp_path / "demo"
    small = ["--set", f"encoder={tiny_encoder}", "--set", "training={epochs=1,steps_per_epoch=3}",
             "--set", "run={device='cpu',tensorboard=false}"]  # fmt: skip
    result = cli("demo", "--out", run, *small)
    assert result.code == 0
    assert result.out.count("→ ") == 3
    for task in ("sst", "quora", "sts"):
        assert f"{task:>6}  " in result.out
    assert f"Report: {run / 'report.html'}" in result.out
    again = cli("demo", "--out", run, *small)
    assert again.code == 2 and "already holds a run" in again.err


def test_the_demo_asks_every_task_one_question_of_its_kind() -> None:
    tasks = load_recipe("demo").tasks
    assert [task for task, _ in QUESTIONS] == list(tasks)
    for task, text in QUESTIONS:
        assert tasks[task].kind == ("single" if isinstance(text, str) else "pair")
