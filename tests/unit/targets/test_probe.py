"""Probes: the same solutions as scikit-learn's, and strengths that fit the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from palbert.targets.binary import Binary
from palbert.targets.classes import Classes
from palbert.targets.multilabel import Multilabel
from palbert.targets.number import Number
from palbert.targets.probe import LOGISTIC, STRENGTHS, fit_logistic, fit_probe, fit_ridge, fit_softmax
from palbert.targets.target import Target


@pytest.fixture
def features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(120, 12))


@pytest.fixture
def slopes(features: np.ndarray) -> np.ndarray:
    """Three directions in the features, with a little noise."""
    noise = np.random.default_rng(1)
    return np.asarray(features @ noise.normal(size=(12, 3)) + noise.normal(size=(120, 3)))


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_softmax_equals_scikit_learn(features: np.ndarray, slopes: np.ndarray, strength: float) -> None:
    labels = slopes.argmax(axis=1)
    theirs = LogisticRegression(C=strength, tol=1e-8, max_iter=1000).fit(features, labels)
    weight, bias = fit_softmax(features, np.eye(3)[labels], strength)
    expected = theirs.predict_log_proba(features)
    found = torch.from_numpy(features @ weight + bias).log_softmax(1).numpy()
    assert found == pytest.approx(expected, abs=1e-3)


def test_logistic_equals_one_of_scikit_learn_per_column(features: np.ndarray, slopes: np.ndarray) -> None:
    decisions = (slopes > 0).astype(float)
    weight, bias = fit_logistic(features, decisions, 1.0)
    for column in range(3):
        theirs = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(features, decisions[:, column])
        assert weight[:, column] == pytest.approx(theirs.coef_[0], abs=1e-3)
        assert bias[column] == pytest.approx(theirs.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_ridge_equals_scikit_learn(features: np.ndarray, slopes: np.ndarray, strength: float) -> None:
    weight, bias = fit_ridge(features, slopes[:, :1], strength)
    theirs = Ridge(alpha=1 / strength).fit(features, slopes[:, 0])
    assert weight[:, 0] == pytest.approx(theirs.coef_) and bias[0] == pytest.approx(theirs.intercept_)


def test_fewer_rows_than_features_give_the_same_solution(features: np.ndarray, slopes: np.ndarray) -> None:
    few, yes = features[:9], (slopes[:9, :1] > 0).astype(float)
    probe = fit_probe(LOGISTIC, [few], yes, order=yes[:, 0])
    length = np.sqrt(np.square(few - few.mean(0)).sum(1).mean())
    scaled = (few - few.mean(0)) / length
    solutions = [fit_logistic(scaled, yes, strength) for strength in STRENGTHS]
    outputs = [scaled @ weight + bias for weight, bias in solutions]
    assert min(np.abs(probe([few]) - each).max() for each in outputs) < 1e-4


def test_a_group_counts_the_same_in_any_unit(features: np.ndarray, slopes: np.ndarray) -> None:
    yes = (slopes[:, :1] > 0).astype(float)
    one = fit_probe(LOGISTIC, [features[:, :8], features[:, 8:]], yes, order=yes[:, 0])
    other = fit_probe(LOGISTIC, [features[:, :8], 1000 * features[:, 8:]], yes, order=yes[:, 0])
    groups = [features[:, :8], features[:, 8:]]
    assert one(groups) == pytest.approx(other([groups[0], 1000 * groups[1]]), abs=1e-3)


def test_noise_gets_a_stronger_penalty_than_a_clear_case(features: np.ndarray, slopes: np.ndarray) -> None:
    clear = (features[:, :1] > 0).astype(float)
    noise = np.random.default_rng(2).integers(0, 2, (120, 1)).astype(float)
    lengths = [
        np.linalg.norm(fit_probe(LOGISTIC, [features], labels, order=labels[:, 0]).weight) for labels in (clear, noise)
    ]
    assert lengths[0] > 10 * lengths[1]


@pytest.mark.parametrize(
    ("target", "learnt"),
    [
        (Classes(classes=("a", "b", "c")), lambda slopes: slopes.argmax(axis=1)),
        (Binary(classes=("no", "yes")), lambda slopes: (slopes[:, 0] > 0).astype(int)),
        (Multilabel(classes=("a", "b", "c")), lambda slopes: (slopes > 0).astype(np.float32)),
    ],
)
def test_the_target_decodes_what_its_probe_gives(
    target: Target, learnt: object, features: np.ndarray, slopes: np.ndarray
) -> None:
    labels = learnt(slopes)  # type: ignore[operator]
    probe = target.probe([features], labels)
    assert probe is not None and probe([features]).shape == (120, target.outputs)
    assert (target.decode(torch.from_numpy(probe([features]))).predicted == labels).mean() > 0.85


def test_a_number_is_predicted_by_ridge(features: np.ndarray, slopes: np.ndarray) -> None:
    probe = Number().probe([features], slopes[:, 0])
    assert probe is not None
    assert np.corrcoef(probe([features])[:, 0], slopes[:, 0])[0, 1] > 0.9


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_few_rows_are_enough(rows: int) -> None:
    probe = Binary(classes=("no", "yes")).probe([np.eye(3)[:rows]], np.arange(rows) % 2)
    assert probe is not None and np.isfinite(probe.weight).all()


def test_nothing_is_drawn_at_random(features: np.ndarray, slopes: np.ndarray) -> None:
    before = torch.get_rng_state()
    Classes(classes=("a", "b", "c")).probe([features], slopes.argmax(axis=1))
    assert torch.equal(before, torch.get_rng_state())
