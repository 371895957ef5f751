"""The examples run as they are, with a tiny encoder in place of the real one."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import palbert

Run = Callable[..., None]
Captured = pytest.CaptureFixture[str]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run_example(monkeypatch: pytest.MonkeyPatch, tiny_encoder: Path, tmp_path: Path) -> Iterator[Run]:
    """Return a function that runs an example as `python examples/NAME` does, in this process."""
    monkeypatch.syspath_prepend(EXAMPLES)  # python puts a script's folder first
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # reports without plots are quicker
    monkeypatch.chdir(tmp_path)

    def run(name: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [name, "--encoder", str(tiny_encoder), *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    yield run
    sys.modules.pop("own_head", None)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_says_how_to_run_it(example: Path) -> None:
    lines = example.read_text("utf-8").splitlines()
    assert len(lines) < 60
    assert f"python examples/{example.name}" in lines[0]


def test_train_two_tasks_trains_its_own_files_and_answers(run_example: Run, tmp_path: Path, capsys: Captured) -> None:
    run_example("train_two_tasks.py", "--out", "two", "--steps", "2")
    first, second = capsys.readouterr().out.splitlines()
    assert "Prediction(answer=" in first and "'kind':" in first
    assert "Prediction(answer=" in second and "'yes':" in second
    report = json.loads((tmp_path / "two" / "run" / "report.json").read_text("utf-8"))
    assert set(report["tasks"]) == {"tone", "same"}
    assert report["rows"] == {"tone": {"train": 6, "dev": 3}, "same": {"train": 4, "dev": 2}}
    assert set(palbert.load(tmp_path / "two" / "run").tasks) == {"tone", "same"}


def test_predict_many_tasks_trains_once_and_asks_every_task(run_example: Run, tmp_path: Path, capsys: Captured) -> None:
    small = ("--set", "training.epochs=1", "--set", "training.steps_per_epoch=2", "--set", "run.tensorboard=false")
    run_example("predict_many_tasks.py", "--out", "demo", *small)
    first = capsys.readouterr().out
    for task in ("sst", "quora", "sts"):
        assert f"\n{task}: " in first
    assert len([line for line in first.splitlines() if line.startswith("  ")]) == 9
    weights = tmp_path / "demo" / "checkpoints" / "last" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    run_example("predict_many_tasks.py", "--out", "demo")
    assert capsys.readouterr().out == first
    assert weights.stat().st_mtime_ns == written


def test_own_head_trains_a_run_with_its_head(run_example: Run, tmp_path: Path, capsys: Captured) -> None:
    run_example("own_head.py", "--out", "own", "--steps", "2")
    printed = capsys.readouterr().out
    report = json.loads((tmp_path / "own" / "report.json").read_text("utf-8"))
    assert f"Pearson correlation on the dev rows: {report['tasks']['sts']['pearson']:.3f}" in printed
    assert printed.count("Prediction(answer=") == 2
    head = palbert.load(tmp_path / "own").inference.model.heads["sts"]
    assert type(head).__name__ == "Bilinear" and head.first.out_features == 64
