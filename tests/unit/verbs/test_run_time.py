"""The time of a run: all evaluations count, and what comes first is added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.recipe.load import make_recipe
from palbert.reporting.display import time_lines
from palbert.runtime.run_folder import RunFolder
from palbert.training.timing import StepTime
from palbert.verbs.run_time import RunTime, evaluations_in, time_of_tasks
from palbert.verbs.train import TrainingJob


def prepared(values: dict[str, Any], folder: Path, **training: Any) -> TrainingJob:
    values["training"] = {**values["training"], **training}
    return TrainingJob(make_recipe(values), RunFolder(folder / "run")).prepare()


def test_steps_add_up_and_evaluation_grows_with_the_evaluations(
    tiny_recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.run_time._seconds_per_token", lambda *arguments: 0.001)
    run = prepared(tiny_recipe, tmp_path, time_limit="2h")
    phases = [StepTime(seconds=10.0, tokens=100, measured=4), StepTime(seconds=5.0, tokens=50, measured=4)]
    few, many = (time_of_tasks(run, phases, evaluations=count) for count in (1, 4))
    assert few.steps == many.steps == 15.0 and few.limit == 7200
    assert many.evaluation == pytest.approx(2 * few.evaluation)  # one before training, one for the report
    assert few.baselines == many.baselines > few.evaluation / 3  # dev rows once, and training rows
    assert few.total == few.steps + few.evaluation + few.baselines


def test_the_evaluations_of_a_phase_are_its_own(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    phase = {"training": {"epochs": 2, "steps_per_epoch": 6}}
    tiny_recipe["phases"] = [phase, {"training": {**phase["training"], "evaluate_every": 4}}]
    run = prepared(tiny_recipe, tmp_path)
    assert [evaluations_in(run.make_trainer(number)) for number in (0, 1)] == [2, 4]  # 16, 18, 20, 24


def test_pretraining_comes_first() -> None:
    found = RunTime(10.0, 5.0, 2.0, limit=60.0).after(RunTime(100.0, 50.0))
    assert found == RunTime(110.0, 55.0, 2.0, limit=60.0) and found.as_dict()["total"] == 167.0


def test_a_dry_run_estimates_the_time(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["pretraining"] = {"steps_per_epoch": 2}
    found = palbert.dry_run(make_recipe(tiny_recipe))
    assert found.time and found.time.steps > 0 and found.time.evaluation > 0 and found.time.baselines > 0
    assert found.summary["time"]["total"] == pytest.approx(found.time.total)


def test_the_time_is_printed_with_its_parts_and_a_limit_that_ends_the_run() -> None:
    time = RunTime(540.0, 180.0, 12.0, limit=600.0)
    said, _ = time_lines(time.as_dict(), "cpu")
    assert said.startswith("Time: about 12 min on cpu (steps 9 min, evaluation 3 min, baselines 12 s);")
    assert "the time limit of 10 min would end it earlier" in said
    assert "limit" not in time_lines(RunTime(10.0, 5.0, limit=600.0).as_dict(), "cpu")[0]
