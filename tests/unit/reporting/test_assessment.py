"""Assessment: calibration before and after on rows that did not choose it, coverage, and what is noted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

from palbert.inference.decisions import Decision
from palbert.inference.results import TaskResult
from palbert.metrics import find_metric
from palbert.metrics.calibration import ece
from palbert.reporting.assessment import LEVELS, assess, assess_all, coverage_curve, decision_notes
from palbert.targets import Decoded
from palbert.tasks.spec import Task


def task(target: str = "binary", **settings: Any) -> Task:
    values = {"name": "own", "kind": "single", "text": "text", "target": target}
    return Task.model_validate(
        {**values, **({"classes": ["a", "b", "c"]} if target == "multilabel" else {}), **settings}
    )


def result(own: Task, outputs: np.ndarray, gold: np.ndarray, decision: Decision, split: str = "dev") -> TaskResult:
    decoded = decision.decode(own.target, torch.from_numpy(outputs))
    metric = find_metric(own.metric)
    return TaskResult(
        task="own",
        split=split,
        target=own.target,
        metric=own.metric,
        scores={own.metric: metric(gold, metric.compared(decoded.predicted, decoded.probabilities))},
        ids=[str(row) for row in range(len(gold))],
        texts=[("text",)] * len(gold),
        gold=gold,
        predicted=decoded.predicted,
        probabilities=decoded.probabilities,
        outputs=outputs,
    )


def rows(count: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are four times too large, and a minority of yes."""
    generator = np.random.default_rng(0)
    logits = generator.normal(-1, 1, size=(count, 1))
    return logits * 4, (generator.uniform(size=count) < expit(logits[:, 0])).astype(np.int64)


def test_without_calibration_there_is_one_judgement() -> None:
    own, (outputs, gold) = task(), rows()
    plain = result(own, outputs, gold, Decision())
    found = assess(own, plain, None)
    assert found is not None and found.after is None and found.cross_fitted is None and found.thresholds == {}
    assert found.before.error == pytest.approx(ece(gold, plain.probabilities))  # type: ignore[arg-type]
    assert set(found.summary()) == {"ece", "ece_by_chance", "log_loss", "coverage"}


def test_calibration_lowers_the_error_on_rows_that_did_not_choose_it() -> None:
    own, (outputs, gold) = task(calibration="temperature"), rows()
    decision = Decision.fitted(own, outputs, gold)
    found = assess(own, result(own, outputs, gold, decision), decision)
    assert found is not None and found.after is not None
    assert found.after.name == "calibrated, 5 folds" and found.before.name == "as trained"
    assert found.after.error < found.before.error / 2 and found.after.log_loss < found.before.log_loss
    assert found.summary()["ece_before"] == found.before.error


def test_other_splits_are_judged_as_they_are() -> None:
    own, (outputs, gold) = task(calibration="platt"), rows()
    decision = Decision.fitted(own, *rows(100))
    found = assess(own, result(own, outputs, gold, decision, split="test"), decision)
    assert found is not None and found.after is not None and found.after.name == "calibrated"
    probabilities = decision.decode(own.target, torch.from_numpy(outputs)).probabilities
    assert found.after.error == pytest.approx(ece(gold, probabilities))  # type: ignore[arg-type]


def test_a_perfectly_calibrated_model_has_the_error_that_chance_gives() -> None:
    generator = np.random.default_rng(1)
    logits = generator.normal(size=(100, 1)) * 2
    errors, expected = [], []
    for _ in range(20):
        gold = (generator.uniform(size=100) < expit(logits[:, 0])).astype(np.int64)
        found = assess(task(), result(task(), logits, gold, Decision()), None)
        assert found is not None
        errors.append(found.before.error)
        expected.append(found.before.by_chance)
    assert np.mean(errors) == pytest.approx(np.mean(expected), rel=0.2) and np.mean(expected) > 0.03


def test_a_threshold_of_dev_is_scored_on_other_rows_and_noted() -> None:
    own, (outputs, gold) = task(threshold="f1", metrics=["f1"]), rows(120)
    decision = Decision.fitted(own, outputs, gold)
    scored = result(own, outputs, gold, decision)
    assessments = assess_all({"own": own}, [scored], {"own": decision})
    honest = assessments["own"].cross_fitted
    assert honest is not None and honest <= scored.scores["f1"]
    assert assessments["own"].thresholds == {"yes": decision.thresholds[0]}
    [note] = decision_notes([scored], assessments)
    assert note.startswith("own: dev has chosen its thresholds, so its scores on dev are optimistic")
    assert f"f1 is {honest:.3f}" in note
    test = result(own, outputs, gold, decision, split="test")
    assert decision_notes([test], assess_all({"own": own}, [test], {"own": decision})) == []


def test_thresholds_of_rare_classes_are_called_uncertain() -> None:
    own = task("multilabel", threshold="f1")
    outputs = np.random.default_rng(0).normal(size=(60, 3))
    gold = (np.arange(180).reshape(60, 3) % np.array([2, 3, 90]) == 0).astype(np.int64)
    decision = Decision.fitted(own, outputs, gold)
    scored = result(own, outputs, gold, decision)
    notes = decision_notes([scored], assess_all({"own": own}, [scored], {"own": decision}))
    assert any("fewer than 10 rows with or without" in note and "c" in note for note in notes)


def test_coverage_falls_and_the_last_point_is_all_rows() -> None:
    own, (outputs, gold) = task(), rows()
    scored = result(own, outputs, gold, Decision())
    found = assess(own, scored, None)
    assert found is not None and [level.min_confidence for level in found.levels] == list(LEVELS)
    shares = [level.coverage for level in found.levels]
    assert shares == sorted(shares, reverse=True) and shares[0] == 1.0  # of two classes, one has at least a half
    assert found.coverage[-1] == 1.0 and found.right[-1] == pytest.approx(scored.scores["accuracy"])
    assert found.levels[0].right == pytest.approx(scored.scores["accuracy"])


def test_equally_sure_rows_are_answered_together() -> None:
    decoded = Decoded(np.array([1, 1, 0]), np.array([[0.2, 0.8], [0.2, 0.8], [0.6, 0.4]]))
    coverage, right = coverage_curve(task().target, decoded, np.array([1, 0, 0]))
    assert coverage.tolist() == pytest.approx([2 / 3, 1.0]) and right.tolist() == pytest.approx([0.5, 2 / 3])


def test_a_level_that_no_row_reaches_has_no_accuracy() -> None:
    scored = result(task(), np.array([[0.1], [-0.1]]), np.array([1, 0]), Decision())
    found = assess(task(), scored, None)
    assert found is not None and found.levels[-1].coverage == 0.0 and found.levels[-1].right is None


def test_numbers_are_not_assessed() -> None:
    own = task("number")
    outputs = np.array([[1.0], [2.0]])
    assert assess(own, result(own, outputs, np.array([1.0, 2.5]), Decision()), None) is None
