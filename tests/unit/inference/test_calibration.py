"""Calibration compared with scipy's minimisation and scikit-learn's Platt scaling, and on rows without a mistake."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax
from sklearn.calibration import _SigmoidCalibration

from palbert.inference.calibration import LARGEST, fit_calibration, fit_platt, log_loss
from palbert.targets import Target
from palbert.tasks.choices import Component, make_target


def target(name: str, classes: int = 2) -> Target:
    return make_target(Component(name=name), classes=tuple(map(str, range(classes))), range=None)


def rows(factor: float, *, classes: int = 4, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are too large by a factor, and labels drawn from the right ones."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(count, classes)) * 2
    shares = np.exp(log_softmax(logits, axis=1))
    labels = np.array([generator.choice(classes, p=row) for row in shares])
    return logits * factor, labels


def test_the_temperature_of_classes_has_the_least_log_loss_by_scipy() -> None:
    outputs, gold = rows(3.0)
    count, classes = outputs.shape
    smooth = np.full((count, classes), 1 / ((count + 2) * (classes - 1)))
    smooth[np.arange(count), gold] = (count + 1) / (count + 2)
    found = minimize_scalar(
        lambda scale: -np.mean((smooth * log_softmax(scale * outputs, axis=1)).sum(axis=1)),
        bounds=(0.01, 10),
        method="bounded",
        options={"xatol": 1e-9},
    )
    scale, shift = fit_calibration("temperature", target("classes", classes), outputs, gold)
    assert scale[0] == pytest.approx(found.x, rel=1e-5) and shift.tolist() == [0.0]
    assert 1 / scale[0] == pytest.approx(3.0, rel=0.15)


def test_the_temperature_of_yes_or_no_has_the_least_log_loss_by_scipy() -> None:
    generator = np.random.default_rng(2)
    logits = generator.normal(size=(500, 3)) * 2
    gold = (generator.uniform(size=logits.shape) < expit(logits)).astype(np.int64)
    smooth = np.where(gold == 1, 501 / 502, 1 / 502)
    found = minimize_scalar(
        lambda scale: log_loss(scale * logits * 2, smooth), bounds=(0.01, 10), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    scale, _ = fit_calibration("temperature", target("multilabel", 3), logits * 2, gold)
    assert scale[0] == pytest.approx(found.x, rel=1e-5)


def test_platt_scaling_equals_scikit_learns_and_scipys() -> None:
    generator = np.random.default_rng(3)
    logits = generator.normal(size=300) * 3 + 1
    gold = (generator.uniform(size=300) < expit(0.5 * logits - 1)).astype(np.float64)
    scale, shift = fit_platt(logits, gold)
    theirs = _SigmoidCalibration().fit(logits, gold)
    assert scale == pytest.approx(-theirs.a_, rel=1e-3) and shift == pytest.approx(-theirs.b_, rel=1e-3, abs=1e-3)
    positive = int(gold.sum())
    smooth = np.where(gold == 1, (positive + 1) / (positive + 2), 1 / (300 - positive + 2))
    found = minimize(lambda pair: log_loss(pair[0] * logits + pair[1], smooth), [1.0, 0.0], tol=1e-12)
    assert (scale, shift) == pytest.approx(tuple(found.x), abs=1e-4)


@pytest.mark.parametrize("method", ["temperature", "platt"])
def test_binary_outputs_of_one_column_are_calibrated(method: str) -> None:
    outputs, gold = rows(4.0, classes=2)
    logit = (outputs[:, 1] - outputs[:, 0])[:, None]
    scale, shift = fit_calibration(method, target("binary"), logit, gold)
    assert scale.shape == shift.shape == (1,) and scale[0] == pytest.approx(0.25, rel=0.2)


@pytest.mark.parametrize("method", ["temperature", "platt"])
@pytest.mark.parametrize("size", [0.01, 1.0, 50.0])
def test_rows_without_a_mistake_do_not_lead_to_certainty(method: str, size: float) -> None:
    outputs = np.concatenate([np.full(10, -size), np.full(10, size)])[:, None]
    gold = (outputs[:, 0] > 0).astype(np.int64)
    scale, shift = fit_calibration(method, target("binary"), outputs, gold)
    yes = expit(scale[0] * outputs[:, 0] + shift[0])
    assert np.isfinite([*scale, *shift]).all()
    assert yes.max() <= 0.96 and yes.min() >= 0.04  # 21 of 22: twenty rows prove no more
    classes = np.stack([-outputs[:, 0], outputs[:, 0]], axis=1)
    scale, _ = fit_calibration("temperature", target("classes"), classes, gold)
    assert np.exp(log_softmax(scale * classes, axis=1)).max() <= 0.96


def test_the_order_of_rows_never_changes() -> None:
    logits = np.linspace(-2, 2, 40)
    gold = (logits < 0).astype(np.float64)  # the wrong way round
    scale, shift = fit_platt(logits, gold)
    assert scale == 1 / LARGEST and expit(scale * logits + shift).mean() == pytest.approx(0.5, abs=0.01)


def test_a_class_that_all_rows_or_none_have_is_left_as_it_is() -> None:
    logits = np.random.default_rng(4).normal(size=(50, 3))
    gold = np.stack([np.zeros(50), np.ones(50), np.arange(50) % 2], axis=1).astype(np.int64)
    scale, shift = fit_calibration("platt", target("multilabel", 3), logits, gold)
    assert (scale[:2].tolist(), shift[:2].tolist()) == ([1.0, 1.0], [0.0, 0.0]) and scale[2] != 1.0
