"""Losses compared with scikit-learn and torch, and special cases of focal and Huber losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error

from palbert.objectives.losses import binary_cross_entropy, binary_focal, cross_entropy, focal, huber
from palbert.registry import LOSSES


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def loss(name: str, outputs: np.ndarray, labels: np.ndarray) -> float:
    return float(LOSSES[name](torch.from_numpy(outputs), torch.from_numpy(labels)))


def test_cross_entropy_equals_scikit_learns_log_loss(generator: np.random.Generator) -> None:
    outputs, labels = generator.normal(size=(40, 5)) * 3, generator.integers(0, 5, 40)
    expected = log_loss(labels, softmax(outputs, axis=1), labels=range(5))
    assert loss("cross-entropy", outputs, labels) == pytest.approx(expected, rel=1e-9)


def test_binary_cross_entropy_equals_scikit_learns_log_loss(generator: np.random.Generator) -> None:
    outputs, labels = generator.normal(size=(40, 1)) * 3, generator.integers(0, 2, 40)
    expected = log_loss(labels, expit(outputs[:, 0]), labels=[0, 1])
    assert loss("binary-cross-entropy", outputs, labels) == pytest.approx(expected, rel=1e-6)


def test_mse_equals_scikit_learns(generator: np.random.Generator) -> None:
    outputs, labels = generator.normal(size=(40, 1)), generator.uniform(0, 5, 40).astype(np.float32)
    expected = mean_squared_error(labels, outputs[:, 0])
    assert loss("mse", outputs, labels) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["cross-entropy", "binary-cross-entropy"])
def test_a_confident_mistake_has_a_finite_loss(name: str) -> None:
    outputs = np.full((2, 5 if name == "cross-entropy" else 1), -300.0)
    outputs[:, 0] = 300.0
    assert loss(name, outputs, np.array([1, 0])) > 100


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_equals_torchs(generator: np.random.Generator, smoothing: float) -> None:
    outputs, labels = torch.from_numpy(generator.normal(size=(40, 5))), torch.from_numpy(generator.integers(0, 5, 40))
    expected = torch.nn.functional.cross_entropy(outputs, labels, label_smoothing=smoothing)
    torch.testing.assert_close(cross_entropy(outputs, labels, label_smoothing=smoothing), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_binary_label_smoothing_equals_torchs_over_two_classes(
    generator: np.random.Generator, smoothing: float
) -> None:
    outputs, labels = torch.from_numpy(generator.normal(size=(40, 1))), torch.from_numpy(generator.integers(0, 2, 40))
    logits = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    expected = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)
    found = binary_cross_entropy(outputs, labels, label_smoothing=smoothing)
    torch.testing.assert_close(found, expected, check_dtype=False)


def test_mae_equals_scikit_learns(generator: np.random.Generator) -> None:
    outputs, labels = generator.normal(size=(40, 1)), generator.uniform(0, 5, 40).astype(np.float32)
    assert loss("mae", outputs, labels) == pytest.approx(mean_absolute_error(labels, outputs[:, 0]), rel=1e-6)


def test_huber_is_half_of_mse_for_small_errors_and_linear_for_large_ones() -> None:
    near, far, zeros = torch.tensor([[0.1], [-0.4]]), torch.tensor([[100.0]]), torch.zeros(2)
    assert float(huber(near, zeros)) == pytest.approx((0.01 + 0.16) / 4)
    assert float(huber(far, zeros[:1], delta=2.0)) == pytest.approx(2 * (100 - 1))


def test_focal_losses_with_gamma_0_are_cross_entropies(generator: np.random.Generator) -> None:
    outputs, labels = torch.from_numpy(generator.normal(size=(40, 5))), torch.from_numpy(generator.integers(0, 5, 40))
    torch.testing.assert_close(focal(outputs, labels, gamma=0.0), cross_entropy(outputs, labels))
    yes = labels % 2
    found = binary_focal(outputs[:, :1], yes, gamma=0.0)
    torch.testing.assert_close(found, binary_cross_entropy(outputs[:, :1], yes), check_dtype=False)


def test_a_focal_loss_weights_rows_by_a_power_of_their_error() -> None:
    outputs, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
    p = outputs.softmax(1)[0, 0]
    assert float(focal(outputs, labels, gamma=3.0)) == pytest.approx(float(-((1 - p) ** 3) * p.log()), rel=1e-5)
    odds = torch.tensor([[2.0]])
    assert float(binary_focal(odds, torch.tensor([1]))) == pytest.approx(float(focal(outputs, labels)), rel=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_the_gradient_of_a_focal_loss_is_finite_for_saturated_outputs(gamma: float) -> None:
    outputs = torch.tensor([[60.0, -60.0], [-60.0, 60.0]], requires_grad=True)
    focal(outputs, torch.tensor([0, 0]), gamma=gamma).backward()
    assert outputs.grad is not None and torch.isfinite(outputs.grad).all()


def test_a_binary_loss_takes_a_logit_for_each_of_several_labels(generator: np.random.Generator) -> None:
    outputs = torch.from_numpy(generator.normal(size=(7, 3)))
    labels = torch.from_numpy(generator.integers(0, 2, (7, 3)).astype(np.float32))
    columns = [binary_cross_entropy(outputs[:, c : c + 1], labels[:, c]) for c in range(3)]
    torch.testing.assert_close(binary_cross_entropy(outputs, labels), torch.stack(columns).mean(), check_dtype=False)
