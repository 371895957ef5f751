"""Hooks that report: what a run writes to metrics.jsonl and TensorBoard."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import TrainingError
from palbert.model.multitask import MultiTaskModel
from palbert.training.hooks import MetricsLog, TensorBoard, read_records
from palbert.training.trainer import Evaluation, Hook, Trainer

Start = Callable[..., Any]


def scores(overall: float, sst: float, sts: float) -> tuple[float, dict[str, dict[str, float]]]:
    return overall, {"sst": {"accuracy": sst}, "quora": {"accuracy": 0.5}, "sts": {"pearson": sts}}


def script(trainer: Trainer, story: list[tuple[float, dict[str, dict[str, float]]]]) -> None:
    """Replace the evaluations of a run by these results."""

    def evaluate(model: MultiTaskModel, *, epoch: float, step: int) -> Evaluation:
        overall, tasks = story[int(epoch)]
        return Evaluation(epoch=epoch, step=step, overall=overall, tasks=tasks)

    trainer.evaluate = evaluate


@pytest.mark.parametrize(
    ("every", "steps"), [(1, [1, 2, 3, 4, 5, 6]), (2, [2, 3, 4, 6]), (4, [3, 4, 6]), (100, [3, 6])]
)
def test_a_line_is_written_every_few_steps_and_after_each_epoch(start: Start, every: int, steps: list[int]) -> None:
    run = start(training={"steps_per_epoch": 3, "log_every": every})
    assert run.fit()
    records = read_records(run.folder.metrics)
    assert [record["step"] for record in records if record["kind"] == "train"] == steps
    assert [record["epoch"] for record in records if record["kind"] == "evaluation"] == [0, 1, 2]


def test_a_line_holds_the_mean_of_every_loss_since_the_last_line(start: Start) -> None:
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


def test_a_partial_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "step": 1}\n{"kind": "tr')
    assert read_records(path) == [{"kind": "train", "step": 1}]
    assert read_records(tmp_path / "absent.jsonl") == []


def test_a_line_that_ends_within_a_character_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "spikes.jsonl"
    path.write_bytes('{"step": 1}\n{"step": 2, "ids": ["ü'.encode()[:-1])
    assert read_records(path) == [{"step": 1}]


def test_a_line_may_hold_other_signs_that_break_lines(tmp_path: Path) -> None:
    record = {"step": 1, "ids": ["a\u2028b", "c\u0085d"]}
    path = tmp_path / "spikes.jsonl"
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n", "utf-8")
    assert read_records(path) == [record]


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


def test_the_lines_of_a_diverged_run_are_strict_json(start: Start) -> None:
    run = start(training={"steps_per_epoch": 3, "log_every": 1}, optimizer={"learning_rate": 1e30})
    with pytest.raises(TrainingError):
        run.fit()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    lines = run.folder.metrics.read_text().splitlines()
    records = [json.loads(line, parse_constant=refuse) for line in lines]
    assert None in records[-1]["losses"].values()
