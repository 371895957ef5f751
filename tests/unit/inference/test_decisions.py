"""Decisions: by default the target's own, otherwise as rows have chosen; kept in a file, and scored on other rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

from palbert.errors import CheckpointError, RecipeError
from palbert.inference.decisions import (
    FILE,
    Decision,
    cross_fitted,
    fits,
    needs_rows,
    read_decisions,
    write_decisions,
)
from palbert.metrics import f1
from palbert.metrics.calibration import ece
from palbert.recipe.load import make_recipe
from palbert.tasks.spec import Task

TARGETS = {"binary": ["no", "yes"], "classes": ["a", "b", "c"], "multilabel": ["a", "b", "c"]}


def task(target: Any = "binary", **settings: Any) -> Task:
    name = target["name"] if isinstance(target, dict) else target
    values = {"name": "own", "kind": "single", "text": "text", "target": target, "classes": TARGETS.get(name, [])}
    return Task.model_validate({**values, **settings})


def rows(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are three times too large, and yes in about a fifth of the rows."""
    generator = np.random.default_rng(0)
    logits = generator.normal(-2, 1.5, size=(count, 1))
    return logits * 3, (generator.uniform(size=count) < expit(logits[:, 0])).astype(np.int64)


@pytest.mark.parametrize("target", list(TARGETS))
def test_without_settings_the_target_decodes_as_before(target: str) -> None:
    own, outputs = task(target), torch.randn(20, 1 if target == "binary" else 3)
    plain, decided = own.target.decode(outputs), Decision.of(own).decode(own.target, outputs)
    assert not needs_rows(own)
    assert np.array_equal(plain.predicted, decided.predicted) and plain.probabilities is not None
    assert decided.probabilities is not None and np.array_equal(plain.probabilities, decided.probabilities)


def test_a_threshold_that_is_a_number_needs_no_rows() -> None:
    own = task(threshold=0.2)
    assert not needs_rows(own)
    decoded = Decision.of(own).decode(own.target, torch.tensor([[-1.0], [-2.0]]))  # 0.27 and 0.12
    assert decoded.predicted.tolist() == [1, 0]
    many = task("multilabel", threshold=0.2)
    assert Decision.of(many).decode(many.target, torch.tensor([[-1.0, -2.0, 1.0]])).predicted.tolist() == [[1, 0, 1]]


def test_calibrated_probabilities_are_closer_to_the_truth_and_answers_stay() -> None:
    outputs, gold = rows()
    own = task(calibration="temperature")
    decision = Decision.fitted(own, outputs, gold)
    before, after = (each.decode(own.target, torch.from_numpy(outputs)) for each in (decision.uncalibrated(), decision))
    assert before.probabilities is not None and after.probabilities is not None
    assert ece(gold, after.probabilities) < ece(gold, before.probabilities) / 2
    assert np.array_equal(before.predicted, after.predicted)


def test_a_threshold_is_chosen_on_calibrated_probabilities() -> None:
    outputs, gold = rows()
    own = task(calibration="platt", threshold="f1")
    decision = Decision.fitted(own, outputs, gold)
    found = decision.decode(own.target, torch.from_numpy(outputs))
    plain = own.target.decode(torch.from_numpy(outputs))
    assert 0 < decision.thresholds[0] < 0.5 and f1(gold, found.predicted) > f1(gold, plain.predicted)


def test_every_class_of_several_has_a_threshold() -> None:
    outputs, gold = np.random.default_rng(0).normal(size=(60, 3)), np.random.default_rng(1).integers(0, 2, (60, 3))
    decision = Decision.fitted(task("multilabel", threshold="balanced", calibration="platt"), outputs, gold)
    assert len(decision.thresholds) == len(decision.scale) == len(decision.shift) == 3 and decision.rows == 60


def test_cross_fitted_rows_are_decided_by_others() -> None:
    outputs, gold = rows(200)
    own = task(calibration="platt", threshold="f1")
    decoded = cross_fitted(own, outputs, gold)
    whole = Decision.fitted(own, outputs, gold).decode(own.target, torch.from_numpy(outputs))
    assert decoded.predicted.shape == gold.shape and decoded.probabilities is not None
    assert f1(gold, decoded.predicted) <= f1(gold, whole.predicted)
    # A row's own label must not matter: with the label of one row changed, only other folds are decided otherwise.
    changed = gold.copy()
    changed[0] = 1 - changed[0]
    assert cross_fitted(task(calibration="platt"), outputs, changed).predicted.shape == gold.shape


def test_few_rows_are_cross_fitted_too() -> None:
    decoded = cross_fitted(task(threshold="accuracy"), np.array([[1.0], [-1.0], [2.0]]), np.array([1, 0, 1]))
    assert len(decoded.predicted) == 3


def test_decisions_come_back_from_their_file(tmp_path: Path) -> None:
    outputs, gold = rows()
    decision = Decision.fitted(task(calibration="platt", threshold="f1"), outputs, gold)
    write_decisions(tmp_path, {"own": decision})
    assert read_decisions(tmp_path) == {"own": decision}


def test_a_checkpoint_without_the_file_has_no_decisions(tmp_path: Path) -> None:
    assert read_decisions(tmp_path) == {}


@pytest.mark.parametrize("content", ["{", '{"format": 2, "tasks": {}}', '{"format": 1, "tasks": {"own": {}}}', "[]"])
def test_a_damaged_file_is_reported_with_the_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content, "utf-8")
    with pytest.raises(CheckpointError, match="damaged") as raised:
        read_decisions(tmp_path)
    assert "palbert evaluate" in str(raised.value)


def test_other_settings_ask_for_other_decisions() -> None:
    outputs, gold = rows()
    decision = Decision.fitted(task(calibration="platt"), outputs, gold)
    assert fits(decision, task(calibration="platt"))
    assert not fits(decision, task(calibration="temperature")) and not fits(
        decision, task(calibration="platt", threshold="f1")
    )


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "sst",
            {"calibration": "platt"},
            "calibration 'platt' does not fit target 'classes', which takes \"temperature\"",
        ),
        ("sts", {"calibration": "temperature"}, "has no probabilities to calibrate"),
        ("sst", {"threshold": 0.3}, "threshold is for yes-or-no decisions"),
        ("quora", {"threshold": 1.5}, "threshold"),
        ("quora", {"threshold": "best"}, "threshold"),
    ],
)
def test_settings_that_do_not_fit_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make_recipe({"data": "samples", "tasks": {name: settings}})


@pytest.mark.parametrize("settings", [{"threshold": "f1"}, {"calibration": "platt"}])
def test_two_classes_are_told_to_become_yes_or_no(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match='Set target = "binary"'):
        task("classes", classes=["ham", "spam"], **settings)


def test_a_threshold_in_task_and_target_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold is set twice"):
        task({"name": "multilabel", "threshold": 0.4}, threshold="f1")


def test_calibrated_outputs_keep_their_gradient() -> None:
    outputs = torch.tensor([[1.0, -2.0]], requires_grad=True)
    Decision("platt", scale=(0.5, 2.0), shift=(1.0, 0.0)).calibrated(outputs).sum().backward()
    assert outputs.grad is not None and outputs.grad.tolist() == [[0.5, 2.0]]
    assert Decision().calibrated(outputs) is outputs
