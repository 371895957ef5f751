"""Progress of a run: a row per evaluation, the best one marked, and the time left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import palbert
from palbert.recipe.schema import Recipe
from palbert.runtime.display import NoDisplay
from palbert.runtime.score_table import Row
from palbert.training.hooks import read_records
from palbert.training.progress_hooks import Pace, ShowProgress, evaluations_after
from palbert.training.trainer import Evaluation
from palbert.verbs import job as job_module
from palbert.verbs import train as verb

MakeRecipe = Callable[..., Recipe]


class Screen(NoDisplay):
    """Remember what is shown."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.steps: list[tuple[int, float | None]] = []
        self.details: list[str] = []

    def row(self, row: Row) -> None:
        self.rows.append(row)

    def step(self, number: int, *, left: float | None, detail: str) -> None:
        self.steps.append((number, left))
        self.details.append(detail)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    shown = Screen()
    monkeypatch.setattr(job_module, "make_display", lambda: shown)
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)
    return shown


def test_a_row_holds_what_metrics_jsonl_holds(recipe: MakeRecipe, tmp_path: Path, screen: Screen) -> None:
    palbert.train(recipe(training={"evaluate_every": 4, "log_every": 2}), out=tmp_path / "run")
    records = [each for each in read_records(tmp_path / "run" / "metrics.jsonl") if each["kind"] == "evaluation"]
    assert [row.epoch for row in screen.rows] == ["0", "0.67", "1", "1.33", "2"]
    best = -1.0
    for row, record in zip(screen.rows, records, strict=True):
        assert row.step == str(record["step"]) and row.overall == f"{record['overall']:.4f}"
        assert row.scores["sts"] == f"{record['tasks']['sts']['pearson']:.3f}"
        assert row.best == (record["step"] > 0 and record["overall"] > best)
        assert bool(row.loss) == (record["step"] > 0)
        best = max(best, record["overall"] if record["step"] else best)
    assert [number for number, _ in screen.steps] == list(range(1, 13))
    assert screen.details[-1].startswith("epoch 2  loss ")


def test_the_rows_of_a_resumed_run_include_the_earlier_ones(
    recipe: MakeRecipe, tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palbert.training.trainer import Trainer

    step = Trainer.step

    def stopping(self: Trainer, batches: Any) -> Any:
        self.stopping = self.position.step == 8
        return step(self, batches)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "step", stopping)
        palbert.train(recipe(), out=tmp_path / "run")
    first = [(row.epoch, row.overall, row.best) for row in screen.rows]
    screen.rows.clear()
    palbert.train(recipe(), out=tmp_path / "run", resume=True)
    assert [(row.epoch, row.overall, row.best) for row in screen.rows][:2] == first
    assert [row.epoch for row in screen.rows] == ["0", "1", "2"]


def test_progress_in_plain_python_goes_to_standard_error_unless_hidden(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)
    palbert.train(recipe(), out=tmp_path / "shown")
    out, err = capsys.readouterr()
    assert out == "" and [line.split()[0] for line in err.splitlines()] == ["epoch", "0", "1", "2"]
    palbert.train(recipe(), out=tmp_path / "hidden", progress=False)
    assert capsys.readouterr() == ("", "")


def fake(*, step: int, ends: tuple[int, ...], every: int | None) -> Any:
    return SimpleNamespace(
        sampler=SimpleNamespace(ends=ends),
        evaluate_every=every,
        total_steps=ends[-1],
        position=SimpleNamespace(step=step, elapsed=0.0),
    )


@pytest.mark.parametrize("every", [None, 1, 3, 4, 5, 7])
@pytest.mark.parametrize("step", [0, 3, 6, 11, 12])
def test_the_evaluations_to_come_are_those_of_epochs_and_those_between(step: int, every: int | None) -> None:
    ends = (5, 12)
    expected = sum(each in ends or (every is not None and each % every == 0) for each in range(step + 1, 13))
    assert evaluations_after(step, fake(step=step, ends=ends, every=every)) == expected


def test_the_time_left_includes_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("palbert.training.progress_hooks.time.perf_counter", lambda: now[0])
    pace = Pace()
    pace.start()
    for _ in range(4):
        now[0] += 2.0
        pace.step()
    assert pace.left(fake(step=4, ends=(5, 10), every=None)) == 6 * 2.0
    now[0] += 7.0
    pace.evaluation(7.0)
    now[0] += 2.0
    pace.step()
    assert pace.left(fake(step=5, ends=(5, 10), every=None)) == 5 * 2.0 + 7.0


def test_the_time_left_is_never_more_than_the_limit_leaves(tmp_path: Path) -> None:
    screen = Screen()
    hook = ShowProgress(screen, metrics={}, path=tmp_path / "none", limit=10.0)
    trainer = fake(step=1, ends=(10**9,), every=None)
    trainer.position.elapsed = 7.0
    hook.pace.steps.append(5.0)
    hook.on_step(trainer, {}, 0)
    assert screen.steps == [(1, 3.0)]


def test_a_task_without_a_main_metric_shows_its_first(tmp_path: Path) -> None:
    screen = Screen()
    hook = ShowProgress(screen, metrics={"a": "f1"}, path=tmp_path / "none")
    scores = {"a": {"accuracy": 0.1, "f1": 0.2}, "b": {"loss": 3.0, "perplexity": 20.0}}
    hook.show(Evaluation(epoch=1, step=2, overall=0.5, tasks=scores), elapsed=65.0)
    assert screen.rows[0].scores == {"a": "0.200", "b": "3.000"} and screen.rows[0].time == "1:05"
