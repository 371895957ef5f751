"""Trials: one run of a search, its log, and what becomes of a failure."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import PalbertError, StoppedError, TrainingError
from palbert.verbs.tuning.trials import Job, logged_to, reason_of, run_here

pytestmark = pytest.mark.usefixtures("no_plots")


def job(values: dict[str, Any], folder: Path, **training: Any) -> Job:
    values = {**values, "training": {**values["training"], **training}}
    return Job("trial 0", palbert.make_recipe(values), folder / "0000", 0)


def test_every_evaluation_is_handed_on_and_the_run_is_an_ordinary_one(values: dict[str, Any], tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    trial = job(values, tmp_path)
    outcome = run_here(trial, lambda number, score: bool(told.append((number, score))))
    assert outcome.state == "complete" and outcome.reason == ""
    assert [number for number, _ in told] == [1, 2]
    assert outcome.report["overall"] == max(score for _, score in told) == palbert.Run(trial.run).report["overall"]
    assert "epoch 2/2" in trial.log.read_text("utf-8")
    assert palbert.load(trial.run).predict("own", ["the film"])


def test_a_run_is_ended_where_that_is_asked_for_but_not_after_its_last_evaluation(
    values: dict[str, Any], tmp_path: Path
) -> None:
    trial = job(values, tmp_path, epochs=4)
    outcome = run_here(trial, lambda number, score: number == 2)
    report = palbert.Run(trial.run).report
    assert outcome.state == "pruned" and "of 2 evaluations is below the median" in outcome.reason
    assert "pruned by the search" in report["finished_early"]
    assert run_here(job(values, tmp_path / "other"), lambda number, score: number == 2).state == "complete"


def test_a_run_that_was_killed_after_an_evaluation_hands_it_on_when_it_is_resumed(
    values: dict[str, Any], tmp_path: Path
) -> None:
    class Killed(BaseException):
        """The process is gone."""

    def kill(number: int, score: float) -> bool:
        raise Killed

    trial, told = job(values, tmp_path), []
    with pytest.raises(Killed):
        run_here(trial, kill)
    assert run_here(trial, lambda number, score: bool(told.append(number))).state == "complete"
    assert told == [1, 2]


def test_a_failure_is_a_result_with_its_reason(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **settings: Any) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore lines")

    monkeypatch.setattr("palbert.verbs.train.train", fail)
    trial = job(values, tmp_path)
    outcome = run_here(trial, lambda number, score: False)
    assert outcome.state == "failed"
    assert outcome.result == {"reason": "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"}
    assert "Traceback" in trial.log.read_text("utf-8")
    assert reason_of(TrainingError("The loss\nis NaN.", hint="Lower it.")) == "The loss is NaN."
    assert reason_of(PalbertError("x")) == "x"


def test_a_stop_is_not_a_failure(values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: Any, **settings: Any) -> None:
        raise StoppedError(tmp_path, verb="train")

    monkeypatch.setattr("palbert.verbs.train.train", stop)
    with pytest.raises(StoppedError):
        run_here(job(values, tmp_path), lambda number, score: False)


def test_the_log_goes_to_the_file_and_then_where_it_went_before(tmp_path: Path) -> None:
    logger = logging.getLogger("palbert")
    former = logger.handlers[:], logger.level, logger.propagate
    for text in ("one", "two"):
        with logged_to(tmp_path / "a" / "b.log"):
            logging.getLogger("palbert.verbs.train").info(text)
    assert (logger.handlers, logger.level, logger.propagate) == former
    assert [line.split()[-1] for line in (tmp_path / "a" / "b.log").read_text().splitlines()] == ["one", "two"]
