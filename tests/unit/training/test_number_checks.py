"""CheckNumbers: the step and the rows of a number that is not finite."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from palbert.errors import TrainingError
from palbert.training import number_checks
from palbert.training.trainer import Trainer

Start = Callable[..., Any]
SIX_STEPS = {"steps_per_epoch": 6, "epochs": 1, "save_every": 2}


def break_steps(run: Any, *broken: int) -> None:
    """Make the loss of some steps infinite, as an objective of a user's own may."""
    trainer = run.trainer

    def change(module: Any, given: Any, losses: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        factor = float("inf") if trainer.position.step + 1 in broken else 1.0
        return {name: loss * factor for name, loss in losses.items()}

    trainer.objective.register_forward_hook(change)


def lines(run: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.folder.non_finite.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("accumulation", [1, 2])
def test_stop_ends_the_run_at_that_step_and_lists_its_rows(start: Start, accumulation: int) -> None:
    run = start(training={**SIX_STEPS, "accumulation": accumulation})
    break_steps(run, 4)
    with pytest.raises(TrainingError, match=r"The loss of '\w+' became inf at step 4; .*non-finite\.jsonl"):
        run.fit()
    assert run.trainer.position.step == 4
    [line] = lines(run)
    [(name, rows)] = line["rows"].items()
    feed, drawn = run.trainer.feed, run.trainer.position.draws[name]
    expected = feed.streams[name].batch(drawn - feed.sets[name].batch_size).tolist()
    assert rows["numbers"] == expected
    assert rows["ids"] == [feed.sets[name].rows.ids[row] for row in expected]
    assert (line["step"], line["losses"]) == (4, {name: "inf"})
    saved = json.loads((run.folder.checkpoints / "last" / "trainer.json").read_text())
    assert saved["position"]["step"] == 2  # not at step 4, where a checkpoint was due


def test_a_stopped_run_can_be_resumed_with_the_other_policy(start: Start) -> None:
    run = start(training=SIX_STEPS)
    break_steps(run, 4)
    with pytest.raises(TrainingError):
        run.fit()
    again = start(training={**SIX_STEPS, "non_finite": "skip"}, resume=True)
    break_steps(again, 4)
    assert again.fit()
    assert again.trainer.position.step == 6
    assert [line["step"] for line in lines(again)] == [4]


@pytest.mark.parametrize(("broken", "ends"), [((2, 3, 5, 6), None), ((2, 3, 4), 4)])
def test_skip_ends_the_run_only_after_too_many_skips_in_a_row(
    start: Start, broken: tuple[int, ...], ends: int | None
) -> None:
    run = start(training={**SIX_STEPS, "non_finite": "skip", "most_skips": 3})
    break_steps(run, *broken)
    if ends is None:
        assert run.fit()
    else:
        with pytest.raises(TrainingError, match="at step 4, the last of 3 skipped steps in a row"):
            run.fit()
    assert [line["step"] for line in lines(run)] == list(broken)


def test_numbers_that_are_read_later_have_the_rows_of_their_own_step(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(training={**SIX_STEPS, "save_every": 100})
    break_steps(run, 1)
    check = number_checks.CheckNumbers._check
    monkeypatch.setattr(
        number_checks.CheckNumbers, "_check", lambda self, trainer, waiting=4: check(self, trainer, waiting=4)
    )
    with pytest.raises(TrainingError, match="at step 1;"):
        run.fit()
    assert run.trainer.position.step == 5
    [(name, rows)] = lines(run)[0]["rows"].items()
    assert name in run.trainer.sampler.epoch(1)[0]
    assert rows["numbers"] == run.trainer.feed.streams[name].batch(0).tolist()


def test_a_rate_that_explodes_is_found(start: Start) -> None:
    run = start(optimizer={"learning_rate": 1e30})
    with pytest.raises(TrainingError, match=r"became nan at step \d"):
        run.fit()
    assert lines(run)[-1]["learning_rate"]["encoder"] == pytest.approx(1e30)


def test_processes_without_files_end_too(start: Start) -> None:
    run = start(optimizer={"learning_rate": 1e30})
    run.trainer.hooks = [number_checks.CheckNumbers(None, seed=0, save_every=100)]
    trainer: Trainer = run.trainer
    with pytest.raises(TrainingError, match="the first process lists its rows"):
        trainer.fit()
