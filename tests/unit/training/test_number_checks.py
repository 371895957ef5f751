"""CheckNumbers: the step and the rows of a number that is not finite, and of a loss spike."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from palbert.errors import TrainingError
from palbert.training import number_checks
from palbert.training.trainer import Trainer

Start = Callable[..., Any]
SIX_STEPS = {"steps_per_epoch": 6, "epochs": 1, "save_every": 2}


def break_steps(run: Any, *broken: int, by: float = float("inf")) -> None:
    """Multiply the loss of some steps, as an objective of a user's own may."""
    trainer = run.trainer

    def change(module: Any, given: Any, losses: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        factor = by if trainer.position.step + 1 in broken else 1.0
        return {name: loss * factor for name, loss in losses.items()}

    trainer.objective.register_forward_hook(change)


def lines(run: Any, name: str = "non-finite") -> list[dict[str, Any]]:
    path = run.folder.path / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def rows_of(run: Any, name: str, place: int) -> dict[str, Any]:
    """Return the numbers and ids of the rows that a set gives from a place of its stream."""
    feed = run.trainer.feed
    numbers = feed.streams[name].batch(place).tolist()
    return {"numbers": numbers, "ids": [feed.sets[name].rows.ids[row] for row in numbers]}


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


def test_the_rates_are_those_of_the_step_also_where_they_are_written_later(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(training={**SIX_STEPS, "save_every": 100}, optimizer={"schedule": "stlr", "learning_rate": 0.5})
    break_steps(run, 3)
    check = number_checks.CheckNumbers._check
    monkeypatch.setattr(
        number_checks.CheckNumbers, "_check", lambda self, trainer, waiting=2: check(self, trainer, waiting=2)
    )
    with pytest.raises(TrainingError, match="at step 3;"):
        run.fit()
    assert run.trainer.position.step == 5
    factors = run.trainer.schedule(2, 6), run.trainer.schedule(4, 6)
    assert factors[0] != factors[1]
    assert lines(run)[0]["learning_rate"]["encoder"] == pytest.approx(0.5 * factors[0])


@pytest.mark.parametrize(("accumulation", "gradients"), [(1, "sum"), (2, "sum"), (1, "pcgrad")])
def test_the_rows_of_a_step_include_the_one_that_is_wrong(
    start: Start, tmp_path: Path, accumulation: int, gradients: str
) -> None:
    labels = {"row 7": 1e30}  # its square is more than float32 holds
    rows = [f"row {row}\ta word {row}\t{labels.get(f'row {row}', row % 5)}\n" for row in range(40)]
    (tmp_path / "mine.tsv").write_text("id\ttext\tlabel\n" + "".join(rows), "utf-8")
    mine = {"train": str(tmp_path / "mine.tsv"), "dev": str(tmp_path / "mine.tsv"), "target": "number"}
    training = {**SIX_STEPS, "accumulation": accumulation, "gradients": gradients, "sampler": "mixed"}
    run = start(training={**training, "non_finite": "skip"}, tasks={"mine": mine})
    drawn = [step for step in range(1, 7) if 7 in rows_of(run, "mine", 8 * (step - 1))["numbers"]]
    assert drawn
    assert run.fit()
    assert [line["step"] for line in lines(run)] == drawn
    assert all("row 7" in line["rows"]["mine"]["ids"] for line in lines(run))
    assert all(line["losses"]["mine"] == "inf" and line["losses"]["sst"] < 100 for line in lines(run))


FORTY_STEPS = {"steps_per_epoch": 40, "epochs": 1, "save_every": 25, "sampler": "mixed"}


def test_a_spike_is_logged_and_written_with_its_rows(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    run = start(training=FORTY_STEPS)
    break_steps(run, 31, by=30.0)
    with caplog.at_level(logging.WARNING):
        assert run.fit()
    [line] = lines(run, "spikes")
    assert line["step"] == 31 and set(line["usual"]) == set(line["losses"]) == set(line["rows"])
    for name, loss in line["losses"].items():
        assert loss > 3 * line["usual"][name] > 0
        expected = rows_of(run, name, 30 * run.trainer.feed.sets[name].batch_size)
        assert line["rows"][name].items() >= expected.items()
    logged = [record.getMessage() for record in caplog.records if "is usual" in record.getMessage()]
    assert len(logged) == 3 and "at step 31" in logged[0] and "spikes.jsonl" in logged[0]
    assert not run.folder.non_finite.exists()


def test_a_resumed_run_finds_the_same_spikes(start: Start) -> None:
    def prepared(folder: str, *, resume: bool = False) -> Any:
        run = start(folder, training=FORTY_STEPS, resume=resume)
        break_steps(run, 27, 31, by=30.0)
        return run

    whole = prepared("whole")
    assert whole.fit()
    stopped = prepared("stopped")
    break_steps(stopped, 28)
    with pytest.raises(TrainingError):
        stopped.fit()
    assert [line["step"] for line in lines(stopped, "spikes")] == [27]
    resumed = prepared("stopped", resume=True)  # from step 25
    assert resumed.fit()
    assert [line["step"] for line in lines(whole, "spikes")] == [27, 31]
    assert lines(resumed, "spikes") == lines(whole, "spikes")


def test_an_ordinary_run_has_no_spike(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    run = start(training={**FORTY_STEPS, "steps_per_epoch": 100, "epochs": 2}, optimizer={"learning_rate": 1e-3})
    assert run.fit()
    assert not run.folder.spikes.exists() and not [each for each in caplog.records if "usual" in each.getMessage()]
