"""Confirm: what fresh seeds say about the best score, computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.reporting.student_t import mean_interval
from palbert.verbs.tuning.confirm import GIVEN, Confirmation
from palbert.verbs.tuning.folder import TuneFolder
from palbert.verbs.tuning.trials import Job, Outcome


def confirmed(values: dict[str, Any], folder: Path, scores: dict[tuple[str, int], float | None]) -> Confirmation:
    recipe = palbert.make_recipe(values)
    names = list(dict.fromkeys(name for name, _ in scores))
    seeds = sorted({seed for _, seed in scores})
    found = Confirmation(TuneFolder(folder), 7, dict.fromkeys(names, recipe), seeds)
    next_job = found.jobs()
    asked: list[Job] = []
    while (job := next_job()) is not None:
        asked.append(job)
        name = next(name for name in names if job.name.startswith(name))
        score = scores[name, job.recipe.seed]
        found.add(job, Outcome("complete", {"overall": score}) if score else Outcome("failed", reason="no memory"))
    assert [job.recipe.seed for job in asked] == [seed for seed in seeds for _ in names]
    assert all(job.number is None for job in asked)
    return found


def test_bias_and_difference_are_those_of_the_pairs(values: dict[str, Any], tmp_path: Path) -> None:
    best, given = [0.80, 0.82, 0.84], [0.79, 0.80, 0.80]
    scores = {("trial 0007", seed): score for seed, score in zip((2, 3, 4), best, strict=True)}
    scores |= {(GIVEN, seed): score for seed, score in zip((2, 3, 4), given, strict=True)}
    found = confirmed(values, tmp_path, scores).summary(0.85)  # type: ignore[arg-type]
    assert found is not None
    assert found["best"] == pytest.approx(0.82) and found["recipe"] == pytest.approx(0.79666667)
    assert found["bias"] == pytest.approx(0.03)
    low, high = mean_interval([0.01, 0.02, 0.04])
    assert found["difference"] == {
        "mean": pytest.approx(0.07 / 3),
        "low": pytest.approx(low),
        "high": pytest.approx(high),
    }
    assert [run["overall"] for run in found["runs"]["trial 0007"]] == best


def test_a_seed_that_failed_for_one_recipe_is_no_pair(values: dict[str, Any], tmp_path: Path) -> None:
    scores = {("trial 0007", 2): 0.8, (GIVEN, 2): None, ("trial 0007", 3): 0.9, (GIVEN, 3): 0.7}
    found = confirmed(values, tmp_path, scores).summary(0.9)
    assert found is not None
    assert found["difference"] == {"mean": pytest.approx(0.2), "low": None, "high": None}
    assert found["runs"][GIVEN][0] == {"seed": 2, "state": "failed", "reason": "no memory"}


def test_the_recipe_itself_is_not_compared_with_itself(values: dict[str, Any], tmp_path: Path) -> None:
    found = confirmed(values, tmp_path, {(GIVEN, 2): 0.8, (GIVEN, 3): 0.9}).summary(0.9)
    assert found is not None and found["difference"] is None and found["best"] == found["recipe"]
    assert confirmed(values, tmp_path, {(GIVEN, 2): None}).summary(0.9) is None
