"""The section of a task: scores with intervals, a strip, and sentences on baselines."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.inference.results import TaskResult
from palbert.reporting.report_task import resample_scores, task_section, task_summary
from palbert.reporting.wording import Score
from palbert.targets import Target
from palbert.targets.classes import Classes
from palbert.targets.multilabel import Multilabel


def result(target: Target, gold: np.ndarray, predicted: np.ndarray, scores: dict[str, float]) -> TaskResult:
    rows = len(gold)
    return TaskResult(
        task="mine",
        split="dev",
        target=target,
        metric=next(iter(scores)),
        scores=scores,
        ids=[str(row) for row in range(rows)],
        texts=[("text",)] * rows,
        gold=gold,
        predicted=predicted,
        probabilities=predicted.astype(np.float64) if predicted.ndim == 2 else None,
    )


@pytest.fixture
def classes() -> TaskResult:
    gold = np.arange(40) % 2
    return result(Classes(classes=("a", "b")), gold, np.where(np.arange(40) < 36, gold, 1 - gold), {"accuracy": 0.9})


def test_every_known_metric_is_resampled_and_others_are_not(classes: TaskResult) -> None:
    classes.scores["someone's own"] = 1.0
    assert resample_scores(classes).keys() == {"accuracy"}


def test_metrics_of_probabilities_are_resampled_by_them() -> None:
    gold = np.eye(3, dtype=np.int64).repeat(4, axis=0)
    found = result(Multilabel(classes=("a", "b", "c")), gold, gold, {"micro_f1": 1.0, "average_precision": 1.0})
    assert resample_scores(found)["average_precision"].max() == 1.0


def test_a_section_has_interval_gain_and_strip(classes: TaskResult) -> None:
    resampled = resample_scores(classes)
    baselines = {"majority / mean": {"mine": 0.5}, "untrained heads": {"mine": 0.6}, "of another task": {"other": 1.0}}
    section = task_section(classes, anchor="x", resampled=resampled, baselines=baselines, train_labels=None)
    assert section.main.low is not None and section.main.low <= 0.9 <= (section.main.high or 0)
    assert section.gain == pytest.approx(0.3) and list(section.baselines) == ["majority / mean", "untrained heads"]
    assert section.strip is not None and section.strip.baselines == pytest.approx([50.0, 60.0])
    assert len(section.errors) == 4 and section.errors_note.startswith("4 of 4 wrong rows")


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        (0.5, "The best baseline, answering the most frequent class every time, reaches 50.0"),
        (0.88, "This is not clearly better than answering the most frequent class every time"),
        (0.95, "This is no better than answering the most frequent class every time"),
    ],
)
def test_a_summary_compares_with_the_best_baseline(classes: TaskResult, baseline: float, words: str) -> None:
    summary = task_summary(classes, Score("accuracy", 0.9, 0.8, 1.0), {"majority / mean": baseline})
    assert summary.startswith("36 of 40 rows right") and words in summary
