"""Hooks that save: when they save, which checkpoint is the best, and that all ranks save at the same steps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.errors import TrainingError
from palbert.model.multitask import MultiTaskModel
from palbert.runtime.distributed import Ranks
from palbert.training import checkpoint_hooks
from palbert.training.checkpoint import read_description, save_checkpoint
from palbert.training.checkpoint_hooks import CheckpointHook, SendRandomState
from palbert.training.trainer import Evaluation, Trainer

Start = Callable[..., Any]


def scores(overall: float, sst: float, sts: float) -> tuple[float, dict[str, dict[str, float]]]:
    return overall, {"sst": {"accuracy": sst}, "quora": {"accuracy": 0.5}, "sts": {"pearson": sts}}


def script(trainer: Trainer, story: list[tuple[float, dict[str, dict[str, float]]]]) -> None:
    """Replace the evaluations of a run by these results."""

    def evaluate(model: MultiTaskModel, *, epoch: float, step: int) -> Evaluation:
        overall, tasks = story[int(epoch)]
        return Evaluation(epoch=epoch, step=step, overall=overall, tasks=tasks)

    trainer.evaluate = evaluate


def test_best_checkpoints_come_from_the_best_epoch(start: Start) -> None:
    run = start(training={"epochs": 4, "steps_per_epoch": 1})
    story = [
        scores(0.1, 0.1, 0.1),
        scores(0.5, 0.9, -0.5),
        scores(0.7, 0.2, -0.1),
        scores(0.6, 0.3, 0.4),
        scores(0.7, 0.1, 0.1),
    ]
    script(run.trainer, story)
    assert run.fit()
    epochs = {
        folder.name: json.loads((folder / "palbert.json").read_text())["scores"]["epoch"]
        for folder in run.folder.checkpoints.iterdir()
    }
    # The earlier of equals is kept: the second 0.7 does not replace the first.
    assert epochs == {"last": 4, "previous": 3, "best": 2, "best-sst": 1, "best-sts": 3, "best-quora": 1}


def test_the_logs_are_flushed_before_each_checkpoint(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(training={"epochs": 1, "steps_per_epoch": 2, "save_every": 1, "log_every": 1})
    flushed, save, sync = [], save_checkpoint, os.fsync

    def fsync(descriptor: int) -> None:
        sync(descriptor)
        flushed.append(Path(f"/proc/self/fd/{descriptor}").resolve())

    def saved(*arguments: Any, **settings: Any) -> None:
        assert flushed[-2:] == [run.folder.metrics.resolve(), run.folder.path.resolve()]
        save(*arguments, **settings)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(checkpoint_hooks, "save_checkpoint", saved)
    assert run.fit()
    assert run.folder.checkpoint("last").is_dir()


def test_resuming_links_a_best_checkpoint_that_a_kill_left_unlinked(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = [scores(0.1, 0.1, 0.1), scores(0.5, 0.9, 0.5), scores(0.6, 0.2, 0.1)]
    run = start(training={"epochs": 2, "steps_per_epoch": 1})
    script(run.trainer, story)

    def die(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("palbert.training.checkpoint_hooks.link_checkpoint", die)
        run.fit()
    run = start(training={"epochs": 2, "steps_per_epoch": 1}, resume=True)
    script(run.trainer, story)
    assert run.fit()
    found = {folder.name: read_description(folder)["scores"]["epoch"] for folder in run.folder.checkpoints.iterdir()}
    assert found == {"last": 2, "previous": 1, "best": 2, "best-sst": 1, "best-sts": 1, "best-quora": 1}


def test_the_best_value_of_an_error_is_the_lowest(start: Start) -> None:
    run = start(
        tasks={"sst": {}, "quora": {}, "sts": {"metrics": ["mse"]}}, training={"epochs": 3, "steps_per_epoch": 1}
    )
    errors = [9.0, 4.0, 2.0, 3.0]
    story = [(0.5, {"sst": {"accuracy": 0.5}, "quora": {"accuracy": 0.5}, "sts": {"mse": error}}) for error in errors]
    script(run.trainer, story)
    assert run.fit()
    assert json.loads((run.folder.checkpoints / "best-sts" / "palbert.json").read_text())["scores"]["epoch"] == 2


def test_weights_with_nan_are_not_saved(start: Start) -> None:
    run = start(training={"steps_per_epoch": 3, "log_every": 1000, "save_every": 1})
    step: Callable[[list[PackedBatch]], dict[str, Tensor]] = run.trainer.step

    def spoil(batches: list[PackedBatch]) -> dict[str, Tensor]:
        losses = step(batches)
        if run.trainer.position.step == 1:
            run.trainer.parameters[0].data.fill_(float("nan"))
        return losses

    run.trainer.step = spoil
    with pytest.raises(TrainingError, match=r"no longer numbers at step 2"):
        run.fit()
    assert read_description(run.folder.checkpoint("last"))["step"] == 1


class Saved(CheckpointHook):
    """Record when to save, and after which epoch."""

    def __init__(self, *, every: int) -> None:
        super().__init__(every=every)
        self.saved: list[tuple[int, float | None]] = []

    def save(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        self.saved.append((trainer.position.step, evaluation.epoch if evaluation else None))


def test_checkpoints_are_saved_every_few_steps_after_each_epoch_and_at_a_stop(start: Start) -> None:
    run = start(training={"epochs": 2, "steps_per_epoch": 3})
    hook = Saved(every=2)
    run.trainer.hooks = [hook]
    assert run.trainer.fit()
    assert hook.saved == [(2, None), (3, 1), (4, None), (6, None), (6, 2)]
    run = start("stopped", training={"epochs": 2, "steps_per_epoch": 3})
    stopped = Saved(every=100)
    run.trainer.hooks = [stopped]
    run.trainer.stopping = True
    assert not run.trainer.fit()
    assert stopped.saved == [(1, None)]


def test_other_ranks_send_their_state_whenever_the_first_rank_saves(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered: list[torch.device] = []

    def gather(device: torch.device, ranks: Ranks) -> dict[str, Tensor]:
        gathered.append(device)
        return {"cpu": torch.get_rng_state()}

    monkeypatch.setattr("palbert.training.checkpoint_hooks.random_state", gather)
    counts = []
    for name, other in (("first", False), ("other", True)):
        run = start(name, training={"epochs": 2, "steps_per_epoch": 3, "save_every": 2})
        if other:
            run.trainer.hooks = [SendRandomState(every=2)]
            run.trainer.fit()
        else:
            run.fit()
        counts.append(len(gathered))
        gathered.clear()
    assert counts == [5, 5]
