"""Damage: a flipped bit in a checkpoint is noticed by every command, and a run continues from the one before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.training.hooks import read_records
from palbert.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
STOPPED_AT = 8


def flip_bit(file: Path) -> None:
    """Flip a bit in the middle of a file, which stays the same file for its hard links."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.fixture(scope="module")
def recipe(tiny_encoder: Path) -> dict[str, Any]:
    """Return a recipe that saves every three steps, with averaged weights and an objective with state."""
    training = {
        "epochs": 2,
        "steps_per_epoch": 6,
        "batch_size": 4,
        "log_every": 2,
        "save_every": 3,
        "average": "ema",
        "balance": "uncertainty",
    }
    return {
        "seed": 3,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder)},
        "tasks": {"sst": {}, "sts": {}},
        "training": training,
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }


@pytest.fixture(scope="module")
def undisturbed(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the recipe without interruption."""
    return palbert.train(recipe, out=tmp_path_factory.mktemp("undisturbed") / "run").path


@pytest.fixture(scope="module")
def stopped(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stop the recipe in its second epoch: `last` is from the step where it stopped, `previous` from an earlier one."""
    step = Trainer.step

    def stop(self: Trainer, batches: Any) -> Any:
        self.stopping = self.position.step == STOPPED_AT - 1
        return step(self, batches)

    run = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(palbert.StoppedError):
        patch.setattr(Trainer, "step", stop)
        palbert.train(recipe, out=run)
    return run


@pytest.fixture
def stopped_copy(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def step_of(checkpoint: Path) -> int:
    return int(json.loads((checkpoint / "trainer.json").read_text("utf-8"))["position"]["step"])


def without_times(run: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl without what differs between equal runs."""
    timed = ("seconds", "tokens_per_second", "waited")
    return [{k: v for k, v in line.items() if k not in timed} for line in read_records(run / "metrics.jsonl")]


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "trainer.json"])
def test_a_run_whose_last_checkpoint_is_damaged_continues_from_the_one_before_and_ends_the_same(
    name: str, recipe: dict[str, Any], undisturbed: Path, stopped_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = stopped_copy / "checkpoints"
    assert (step_of(checkpoints / "last"), step_of(checkpoints / "previous")) == (STOPPED_AT, 6)
    flip_bit(checkpoints / "last" / name)
    palbert.train(recipe, out=stopped_copy, resume=True)
    assert f"last/{name}: damaged" in caplog.text
    assert "The run continues from the checkpoint before it, of step 6." in caplog.text
    for file in ("last/model", "last/optimizer", "last/weights", "best/model", "best-sst/model", "best-sts/model"):
        ends = [(run / "checkpoints" / f"{file}.safetensors").read_bytes() for run in (stopped_copy, undisturbed)]
        assert ends[0] == ends[1], file
    assert without_times(stopped_copy) == without_times(undisturbed)
    assert {path.name for path in checkpoints.iterdir()} == {"best", "best-sst", "best-sts", "last", "previous"}


def test_with_both_checkpoints_damaged_the_error_names_both_and_nothing_is_changed(
    recipe: dict[str, Any], stopped_copy: Path, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    for name in ("last", "previous"):
        flip_bit(stopped_copy / "checkpoints" / name / "optimizer.safetensors")
    before = snapshot(stopped_copy / "checkpoints")
    with pytest.raises(palbert.PalbertError, match=r"last/opt.*damaged.*previous/opt.*damaged.*Train again with --for"):
        palbert.train(recipe, out=stopped_copy, resume=True)
    assert snapshot(stopped_copy / "checkpoints") == before


@pytest.mark.parametrize("name", ["model.safetensors", "palbert.json", "tokenizer.json"])
def test_a_damaged_best_is_refused_and_other_checkpoints_are_named(name: str, stopped_copy: Path, cli: Cli) -> None:
    flip_bit(stopped_copy / "checkpoints" / "best" / name)
    result = cli("predict", stopped_copy, "--task", "sst", "--text", "fine")
    assert result.code == 2 and result.out == "" and "Traceback" not in result.err
    assert f"best/{name}: damaged: expected the SHA-256" in result.err
    assert "Take another checkpoint of the run with --checkpoint: " in result.err and "last" in result.err
    assert cli("predict", stopped_copy, "--task", "sst", "--text", "fine", "--checkpoint", "last").code == 0
    assert cli("evaluate", stopped_copy).code == 2
    assert cli("export", stopped_copy, "--out", stopped_copy.parent / "exported").code == 2
    assert not (stopped_copy.parent / "exported").exists()


def test_a_run_does_not_start_from_a_damaged_encoder(
    recipe: dict[str, Any], stopped_copy: Path, tmp_path: Path
) -> None:
    flip_bit(stopped_copy / "checkpoints" / "best" / "model.safetensors")
    with pytest.raises(palbert.PalbertError, match=r"best/model.safetensors: damaged"):
        palbert.train({**recipe, "encoder": {"name": str(stopped_copy)}}, out=tmp_path / "next")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_exported_encoder_is_refused(name: str, stopped_copy: Path, tmp_path: Path) -> None:
    palbert.export(stopped_copy, out=tmp_path / "encoder", to="transformers", check=False)
    assert palbert.load(tmp_path / "encoder").embed(["fine"]).shape == (1, 32)
    flip_bit(tmp_path / "encoder" / name)
    with pytest.raises(palbert.PalbertError, match=rf"encoder/{name}: damaged: expected the SHA-256.*Restore the file"):
        palbert.load(tmp_path / "encoder")
