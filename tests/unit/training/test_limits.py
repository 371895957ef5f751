"""Limits: a run that finishes early is complete, says why, and can be continued with a higher limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import palbert
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.schema import Recipe
from palbert.training.hooks import read_records
from palbert.training.limits import Patience
from palbert.training.trainer import Evaluation
from palbert.verbs.train import TrainingJob

MakeRecipe = Callable[..., Recipe]

pytestmark = pytest.mark.usefixtures("no_plots")


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, float]], None]:
    """Return a function that sets the overall scores by step; 0 elsewhere."""

    def story(scores: dict[int, float]) -> None:
        def evaluate(job: TrainingJob, model: MultiTaskModel, *, epoch: float, step: int) -> Evaluation:
            tasks = {name: {task.metric: 0.5} for name, task in job.recipe.tasks.items()}
            return Evaluation(epoch=epoch, step=step, overall=scores.get(step, 0.0), tasks=tasks)

        monkeypatch.setattr(TrainingJob, "evaluate", evaluate)

    return story


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look at the clock take a second, so that a step takes one."""
    ticks = count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr("palbert.training.limits.time", clock)


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    return [record for record in read_records(run / "metrics.jsonl") if record["kind"] == kind]


def report(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "report.json").read_text("utf-8"))
    return found


def folder(run: Any) -> Path:
    return Path(getattr(run, "path", run))


@pytest.mark.parametrize(("patience", "last"), [(1, 6), (2, 10), (3, 12)])
def test_patience_counts_evaluations_since_the_best(
    recipe: MakeRecipe, tmp_path: Path, score: Callable[[dict[int, float]], None], patience: int, last: int
) -> None:
    score({0: 0.99, 2: 0.3, 4: 0.5, 6: 0.4, 8: 0.6, 10: 0.6, 12: 0.2})
    if patience == 2:
        score({0: 0.99, 2: 0.3, 4: 0.5, 6: 0.6, 8: 0.6, 10: 0.2, 12: 0.9})
    chosen = recipe(training={"evaluate_every": 2, "patience": patience})
    run = folder(palbert.train(chosen, out=tmp_path / "run"))
    assert records(run, "evaluation")[-1]["step"] == last
    if last == 12:
        assert not records(run, "end") and report(run)["finished_early"] is None
        return
    assert records(run, "end")[0]["step"] == last
    assert f"after step {last}: no overall score better than 0." in report(run)["finished_early"]
    assert "The run finished early" in (run / "report.html").read_text("utf-8")


def test_a_run_that_patience_ended_stays_finished_and_continues_with_more_patience(
    recipe: MakeRecipe, tmp_path: Path, score: Callable[[dict[int, float]], None]
) -> None:
    score({2: 0.5})
    chosen = recipe(training={"evaluate_every": 2, "patience": 1})
    run = folder(palbert.train(chosen, out=tmp_path / "run"))
    before = (run / "metrics.jsonl").read_text("utf-8")
    palbert.train(chosen, out=run, resume=True)
    assert (run / "metrics.jsonl").read_text("utf-8") == before
    palbert.train(recipe(training={"evaluate_every": 2, "patience": 3}), out=run, resume=True)
    assert [record["step"] for record in records(run, "evaluation")] == [0, 2, 4, 6, 8]
    palbert.train(recipe(training={"evaluate_every": 2}), out=run, resume=True)
    whole = folder(palbert.train(recipe(training={"evaluate_every": 2}), out=tmp_path / "whole"))
    assert not records(run, "end")
    assert records(run, "evaluation") == records(whole, "evaluation")
    weights = [(each / "checkpoints" / "last" / "model.safetensors").read_bytes() for each in (run, whole)]
    assert weights[0] == weights[1]


def test_only_the_last_phase_of_a_run_loses_patience(
    recipe: MakeRecipe, tmp_path: Path, score: Callable[[dict[int, float]], None]
) -> None:
    score({})
    phases = [{"training": {"epochs": 3, "steps_per_epoch": 1}}, {"training": {"epochs": 5, "steps_per_epoch": 1}}]
    run = folder(palbert.train(recipe(training={"patience": 2}, phases=phases), out=tmp_path / "run"))
    assert [record["epoch"] for record in records(run, "evaluation")] == [0, 1, 2, 3, 4, 5, 6]


def test_a_phase_cannot_have_a_limit_of_its_own(recipe: MakeRecipe) -> None:
    with pytest.raises(RecipeError, match=r"phases\.0\.training\.patience: this is set for the whole run"):
        recipe(phases=[{"training": {"patience": 2}}])


@pytest.mark.usefixtures("slow_clock")
def test_a_time_limit_ends_a_run_with_an_evaluation_a_checkpoint_and_a_report(
    recipe: MakeRecipe, tmp_path: Path
) -> None:
    run = folder(palbert.train(recipe(training={"time_limit": "4 s"}), out=tmp_path / "run"))
    [end] = records(run, "end")
    assert 3 <= end["step"] <= 4
    assert records(run, "evaluation")[-1]["step"] == records(run, "train")[-1]["step"] == end["step"]
    assert "the time limit of 4 s was reached" in report(run)["finished_early"]
    assert report(run)["step"] == end["step"]
    assert palbert.load(run).predict("sts", [("a", "b")])


@pytest.mark.usefixtures("slow_clock")
def test_a_run_that_a_limit_ended_continues_exactly_with_a_higher_one(recipe: MakeRecipe, tmp_path: Path) -> None:
    run = folder(palbert.train(recipe(training={"time_limit": 4}), out=tmp_path / "run"))
    before, seconds = records(run, "evaluation") + records(run, "end"), report(run)["seconds"]
    palbert.train(recipe(training={"time_limit": 4}), out=run, resume=True)
    assert records(run, "evaluation") + records(run, "end") == before
    assert report(run)["seconds"] == pytest.approx(seconds, abs=0.1)
    palbert.train(recipe(training={"time_limit": "1h"}), out=run, resume=True)
    whole = folder(palbert.train(recipe(), out=tmp_path / "whole"))
    weights = [(each / "checkpoints" / "last" / "model.safetensors").read_bytes() for each in (run, whole)]
    assert weights[0] == weights[1] and not records(run, "end")
    losses = [[record["losses"] for record in records(each, "train")] for each in (run, whole)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("given", "seconds"), [("30 min", 1800.0), ("2h", 7200.0), (90, 90.0)])
def test_a_time_limit_is_text_or_seconds(recipe: MakeRecipe, given: Any, seconds: float) -> None:
    assert recipe(training={"time_limit": given}).training.time_limit == seconds


def test_a_time_limit_that_is_not_a_duration_is_refused(recipe: MakeRecipe) -> None:
    with pytest.raises(RecipeError, match=r"training\.time_limit: .*\"30 min\".*found 'soon'"):
        recipe(training={"time_limit": "soon"})


def test_patience_of_a_run_without_scores_waits(tmp_path: Path) -> None:
    class Nothing:
        epochs = range(1, 3)

        class sampler:
            epochs = 2

        def finish(self, reason: str) -> None:
            raise AssertionError(reason)

    Patience(1, metrics=tmp_path / "none.jsonl").on_start(Nothing())  # type: ignore[arg-type]


def test_a_limit_that_the_first_evaluation_uses_up_leaves_one_step(recipe: MakeRecipe, tmp_path: Path) -> None:
    run = folder(palbert.train(recipe(training={"time_limit": 1e-9}), out=tmp_path / "run"))
    assert records(run, "end")[0]["step"] == 1 and (run / "checkpoints" / "best").is_dir()
