"""Ctrl-C, SIGTERM and kill -9: a checkpoint to load, a way to continue, and the same result as an uninterrupted run."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

import palbert
from palbert.training.hooks import read_records
from palbert.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def recipe(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a recipe with a few hundred steps, which leaves time to stop it."""
    path = tmp_path_factory.mktemp("long") / "long.toml"
    values = {
        "seed": 3,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder)},
        "tasks": ["sst", "sts"],
        "training": {"epochs": 2, "steps_per_epoch": 100, "batch_size": 8, "log_every": 5, "save_every": 7},
        "optimizer": {"learning_rate": 1e-3, "schedule": "stlr"},
        "run": {"device": "cpu", "tensorboard": False},
    }
    path.write_text(tomli_w.dumps(values), "utf-8")
    return path


@pytest.fixture(scope="module")
def undisturbed(recipe: Path) -> Path:
    """Train the recipe without interruption."""
    return palbert.train(recipe, out=recipe.parent / "undisturbed").path


def start(recipe: Path, run: Path) -> subprocess.Popen[str]:
    """Start `palbert train` as a user would, and wait until it is in the middle of the first epoch."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from palbert.cli import main; main()", "train", str(recipe), "--out", str(run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},  # sums depend on the number of threads
    )
    deadline = time.monotonic() + 60
    while sum(record["kind"] == "train" for record in read_records(run / "metrics.jsonl")) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "training does not start"
        time.sleep(0.01)
    return process


def losses(run: Path) -> list[tuple[int, dict[str, float]]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [(record["step"], record["losses"]) for record in records if record["kind"] == "train"]


def assert_same_end(run: Path, undisturbed: Path) -> None:
    """Check that a run that was stopped and resumed equals an uninterrupted one, to the last bit."""
    for name in ("last", "best", "best-sst", "best-sts"):
        weights = [(folder / "checkpoints" / name / "model.safetensors").read_bytes() for folder in (run, undisturbed)]
        assert weights[0] == weights[1], name
    reports = [json.loads((folder / "report.json").read_text("utf-8")) for folder in (run, undisturbed)]
    assert reports[0]["tasks"] == reports[1]["tasks"]
    assert losses(run) == losses(undisturbed)
    records = [read_records(folder / "metrics.jsonl") for folder in (run, undisturbed)]
    for kind in ("epoch", "evaluation"):
        first, second = ([record for record in lines if record["kind"] == kind] for lines in records)
        assert first == second


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_stop_signal_saves_a_checkpoint_and_says_how_to_continue(
    stop: signal.Signals, recipe: Path, undisturbed: Path, tmp_path: Path, cli: Cli
) -> None:
    run = tmp_path / "my run"  # the suggested command must quote this space
    process = start(recipe, run)
    process.send_signal(stop)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == "" and "Traceback" not in err
    assert "stopping after this step; press Ctrl-C again to stop at once" in err
    step = json.loads((run / "checkpoints" / "last" / "trainer.json").read_text("utf-8"))["position"]["step"]
    assert 15 <= step < 200
    assert palbert.load(run).predict("sts", [("a", "b")])

    said = next(line for line in err.splitlines() if "Continue with: " in line).partition("Continue with: ")[2]
    program, *arguments = shlex.split(said)
    assert program == "palbert"
    result = cli(*arguments)
    assert result.code == 0 and f"resuming at step {step} of 200" in result.err
    assert_same_end(run, undisturbed)


def test_a_killed_run_continues_from_its_last_checkpoint(
    recipe: Path, undisturbed: Path, tmp_path: Path, cli: Cli
) -> None:
    run = tmp_path / "killed"
    process = start(recipe, run)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert palbert.load(run).predict("sts", [("a", "b")])
    step = json.loads((run / "checkpoints" / "last" / "trainer.json").read_text("utf-8"))["position"]["step"]
    assert step % 7 == 0 and 7 <= step < 200
    result = cli("train", recipe, "--out", run, "--resume")
    assert result.code == 0 and f"resuming at step {step} of 200" in result.err
    assert_same_end(run, undisturbed)


def test_a_kill_between_the_two_renames_of_a_checkpoint_loses_no_data(trained: Path, run_copy: Path, cli: Cli) -> None:
    checkpoints = run_copy / "checkpoints"
    for name in ("best", "best-sst", "last"):  # the old folder has been moved away, the new one is not yet in its place
        (checkpoints / name).rename(checkpoints / f".{name}.old")
        (checkpoints / f".{name}.k7x2").mkdir()
    assert palbert.load(run_copy).predict("sst", ["fine"]) == palbert.load(trained).predict("sst", ["fine"])
    assert cli("train", trained.parent / "given.toml", "--out", run_copy, "--resume").code == 0
    assert {path.name for path in checkpoints.iterdir()} == {path.name for path in (trained / "checkpoints").iterdir()}


def test_resuming_repairs_a_metrics_file_that_ends_in_a_partial_line(trained: Path, run_copy: Path, cli: Cli) -> None:
    whole = (run_copy / "metrics.jsonl").read_text("utf-8")
    (run_copy / "metrics.jsonl").write_text(whole + '{"kind": "train", "st')
    assert cli("train", trained.parent / "given.toml", "--out", run_copy, "--resume").code == 0
    assert (run_copy / "metrics.jsonl").read_text("utf-8") == whole


@pytest.mark.parametrize("place", ["palbert.build.data.load_part", "palbert.verbs.train.build_trainer"])
def test_ctrl_c_before_the_first_step_exits_without_a_traceback(
    place: str, recipe: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    result = cli("train", recipe, "--out", tmp_path / "run")
    assert (result.code, result.out) == (130, "")
    assert result.err.endswith("error: stopped\n") and "Traceback" not in result.err
    assert not (tmp_path / "run").exists()


def test_resuming_a_run_stopped_before_its_first_step_starts_it_again(
    recipe: Path, undisturbed: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("palbert.training.trainer.Trainer.fit", interrupted)
        assert cli("train", recipe, "--out", tmp_path / "run").code == 130
    assert (tmp_path / "run" / "recipe.toml").is_file()
    assert cli("train", recipe, "--out", tmp_path / "run", "--resume").code == 0
    assert_same_end(tmp_path / "run", undisturbed)


def test_a_stopped_run_raises_with_the_folder_to_resume_from(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.step

    def stop(self: Trainer, batches: Any) -> Any:
        self.stopping = True
        return step(self, batches)

    monkeypatch.setattr(Trainer, "step", stop)
    with pytest.raises(palbert.StoppedError) as caught:
        palbert.train(recipe, out=tmp_path / "run")
    assert (caught.value.folder, caught.value.verb) == (tmp_path / "run", "train")
    assert (caught.value.folder / "checkpoints" / "last" / "trainer.json").is_file()


def test_ctrl_c_while_predicting_leaves_no_partial_output(
    trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.csv").write_text("sentence\na\nb\n")

    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(palbert.Predictor, "predict", interrupted)
    out = tmp_path / "out.csv"
    result = cli("--debug", "predict", trained, "-t", "sst", "--input", tmp_path / "in.csv", "--output", out)
    assert (result.code, result.err) == (130, "error: stopped\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_loss_of_nan_stops_the_run_with_exit_code_1(
    tiny_recipe: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, cli: Cli
) -> None:
    values = {**tiny_recipe, "tasks": {"sts": {}}, "optimizer": {"learning_rate": 1e30}}
    result = cli("train", write_recipe(values), "--out", tmp_path / "run")
    assert (result.code, result.out) == (1, "")
    assert "error: The loss of 'sts' became nan at step" in result.err
    assert "Lower optimizer.learning_rate" in result.err and "Traceback" not in result.err
