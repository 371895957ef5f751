"""Hooks: what a run leaves in metrics.jsonl, TensorBoard and its checkpoints."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.errors import TrainingError
from palbert.model.multitask import MultiTaskModel
from palbert.training.checkpoint import read_description
from palbert.training.hooks import MetricsLog, TensorBoard, read_records
from palbert.training.trainer import Evaluation, Hook, Trainer

Start = Callable[..., Any]


def scores(overall: float, sst: float, sts: float) -> tuple[float, dict[str, dict[str, float]]]:
    return overall, {"sst": {"accuracy": sst}, "quora": {"accuracy": 0.5}, "sts": {"pearson": sts}}


def script(trainer: Trainer, story: list[tuple[float, dict[str, dict[str, float]]]]) -> None:
    """Let the evaluations of a run have these results."""

    def evaluate(model: MultiTaskModel, *, epoch: int, step: int) -> Evaluation:
        overall, tasks = story[epoch]
        return Evaluation(epoch=epoch, step=step, overall=overall, tasks=tasks)

    trainer.evaluate = evaluate


def test_best_checkpoints_are_those_of_the_best_epoch(start: Start) -> None:
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
    # Of equals, the earlier: the second 0.7 does not replace the first.
    assert epochs == {"last": 4, "best": 2, "best-sst": 1, "best-sts": 3, "best-quora": 1}


def test_a_best_that_was_not_linked_when_the_run_was_killed_is_linked_when_it_goes_on(
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
    assert found == {"last": 2, "best": 2, "best-sst": 1, "best-sts": 1, "best-quora": 1}


def test_the_best_error_is_the_lowest(start: Start) -> None:
    run = start(
        tasks={"sst": {}, "quora": {}, "sts": {"metrics": ["mse"]}}, training={"epochs": 3, "steps_per_epoch": 1}
    )
    errors = [9.0, 4.0, 2.0, 3.0]
    story = [(0.5, {"sst": {"accuracy": 0.5}, "quora": {"accuracy": 0.5}, "sts": {"mse": error}}) for error in errors]
    script(run.trainer, story)
    assert run.fit()
    assert json.loads((run.folder.checkpoints / "best-sts" / "palbert.json").read_text())["scores"]["epoch"] == 2


@pytest.mark.parametrize(
    ("every", "steps"), [(1, [1, 2, 3, 4, 5, 6]), (2, [2, 3, 4, 6]), (4, [3, 4, 6]), (100, [3, 6])]
)
def test_a_line_is_written_now_and_then_and_after_each_epoch(start: Start, every: int, steps: list[int]) -> None:
    run = start(training={"steps_per_epoch": 3, "log_every": every})
    assert run.fit()
    records = read_records(run.folder.metrics)
    assert [record["step"] for record in records if record["kind"] == "train"] == steps
    assert [record["epoch"] for record in records if record["kind"] == "evaluation"] == [0, 1, 2]


def test_a_line_holds_the_mean_of_every_loss_since_the_last(start: Start) -> None:
    run = start(training={"steps_per_epoch": 6, "log_every": 3})
    seen: list[dict[str, float]] = []

    class Listener(Hook):
        def on_step(self, trainer: Trainer, losses: dict[str, Any], tokens: int) -> None:
            seen.append({task: float(loss) for task, loss in losses.items()})

    run.folder.path.mkdir()
    run.trainer.hooks = [Listener(), MetricsLog(run.folder.metrics, every=3)]
    assert run.trainer.fit()
    lines = [record for record in read_records(run.folder.metrics) if record["kind"] == "train"]
    assert len(lines) == 4
    for number, line in enumerate(lines):
        steps = seen[3 * number : 3 * number + 3]
        tasks = {task for step in steps for task in step}
        for task in tasks:
            values = [step[task] for step in steps if task in step]
            assert line["losses"][task] == pytest.approx(sum(values) / len(values))
        assert set(line["losses"]) == tasks
        assert line["tokens_per_second"] > 0
    assert [line["seconds"] for line in lines] == sorted(line["seconds"] for line in lines)


def test_writers_see_every_record(start: Start, tmp_path: Path) -> None:
    run = start(training={"steps_per_epoch": 2})
    seen: list[Any] = []
    run.folder.path.mkdir()
    run.trainer.hooks = [MetricsLog(run.folder.metrics, every=1, writers=[seen.append])]
    assert run.trainer.fit()
    assert seen == read_records(run.folder.metrics)


def test_the_log_says_how_each_epoch_went(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    run = start(training={"steps_per_epoch": 1})
    script(run.trainer, [scores(0.1, 0.1, 0.1), scores(0.25, 0.125, 0.5), scores(0.5, 0.5, 0.5)])
    with caplog.at_level(logging.INFO, logger="palbert"):
        assert run.fit()
    assert "epoch 1/2: overall 0.2500 (sst 0.125, quora 0.500, sts 0.500)" in caplog.text


def test_a_line_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "step": 1}\n{"kind": "tr')
    assert read_records(path) == [{"kind": "train", "step": 1}]
    assert read_records(tmp_path / "absent.jsonl") == []


def test_tensorboard_gets_the_same_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard(tmp_path)
    board({"kind": "train", "step": 2, "losses": {"sst": 1.5}, "learning_rate": {"heads": 0.25}})
    board({"kind": "evaluation", "step": 4, "overall": 0.75, "tasks": {"sst": {"accuracy": 0.5}}})
    board.writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert found == {
        "losses/sst": [(2, 1.5)],
        "learning_rate/heads": [(2, 0.25)],
        "overall": [(4, 0.75)],
        "sst/accuracy": [(4, 0.5)],
    }


def test_weights_that_are_no_numbers_are_not_saved(start: Start) -> None:
    run = start(training={"steps_per_epoch": 3, "log_every": 1000, "save_every": 1})
    step = run.trainer.step

    def spoil(batches: list[PackedBatch]) -> dict[str, Tensor]:
        losses = step(batches)
        if run.trainer.position.step == 1:
            run.trainer.parameters[0].data.fill_(float("nan"))
        return losses

    run.trainer.step = spoil
    with pytest.raises(TrainingError, match=r"no longer numbers at step 2"):
        run.fit()
    assert read_description(run.folder.checkpoint("last"))["step"] == 1


def test_lines_of_a_run_that_diverged_are_strict_json(start: Start) -> None:
    run = start(training={"steps_per_epoch": 3, "log_every": 1}, optimizer={"learning_rate": 1e30})
    with pytest.raises(TrainingError):
        run.fit()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    lines = run.folder.metrics.read_text().splitlines()
    records = [json.loads(line, parse_constant=refuse) for line in lines]
    assert None in records[-1]["losses"].values()
