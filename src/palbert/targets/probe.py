"""Probes: linear models of labels given fixed features, each with the penalty that predicts held-out rows best.

No torch at import, like all of `targets`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
Features = Sequence[NDArray[Any]]
"""Groups of features of the same rows, each (rows, features)."""

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""What is tried for C, the inverse of the penalty, on groups of features with a mean squared length of 1."""
FOLDS = 4
"""Parts that the rows are divided into to choose the strength."""
ROWS = 2_000
"""At most so many rows are used to choose the strength; all rows are used for the probe itself."""
STEPS = 200
"""Steps of L-BFGS at most."""


@dataclass(frozen=True)
class Probe:
    """A linear model: outputs = features · weight + bias, in the form of a head's outputs."""

    weight: Floats
    """(features, outputs)."""
    bias: Floats
    """(outputs,)."""
    loss: float
    """The mean loss on held-out rows, by which the strength was chosen."""

    def __call__(self, features: Features) -> Floats:
        """Return the outputs, (rows, outputs)."""
        outputs: Floats = np.concatenate(features, axis=1).astype(np.float64) @ self.weight + self.bias
        return outputs


@dataclass(frozen=True)
class Model:
    """One kind of linear model: how it is fitted, and how its outputs are scored."""

    fit: Callable[[Floats, Floats, float], tuple[Floats, Floats]]
    """Return weight and bias, given features, targets (rows, outputs) and the strength C."""
    loss: Callable[[Floats, Floats], float]
    """Return the mean loss of outputs, given the targets."""


def fit_probe(model: Model, features: Features, targets: NDArray[Any], *, order: NDArray[Any]) -> Probe:
    """Fit a linear model with the strength that predicts held-out rows best.

    Args:
        model: What to fit.
        features: Groups of features, each (rows, features). Every group is centred and scaled to a mean squared length
            of 1, so that the penalty treats a group of few features as it treats one of many.
        targets: (rows, outputs).
        order: One value per row; every fold gets rows from its whole span, such as rows of every class.
    """
    y = targets.astype(np.float64)
    x = np.concatenate(features, axis=1).astype(np.float64)
    center = x.mean(axis=0)
    x -= center
    lengths = [np.sqrt(np.square(group - group.mean(axis=0)).sum(axis=1).mean()) for group in features]
    scale = np.concatenate(
        [np.full(group.shape[1], length or 1.0) for group, length in zip(features, lengths, strict=True)]
    )
    x /= scale
    basis = None
    if len(x) < x.shape[1]:  # the solution lies in the span of the rows, so fewer coordinates do
        basis, triangle = np.linalg.qr(x.T)
        x = triangle.T
    sorted_rows = np.argsort(order, kind="stable")
    chosen = sorted_rows[:: -(-len(x) // ROWS)]
    losses = [_held_out_loss(model, x[chosen], y[chosen], strength) for strength in STRENGTHS]
    best = int(np.argmin(losses))
    weight, bias = model.fit(x, y, STRENGTHS[best])
    weight = (weight if basis is None else basis @ weight) / scale[:, None]
    return Probe(weight, bias - center @ weight, losses[best])


def _held_out_loss(model: Model, x: Floats, y: Floats, strength: float) -> float:
    """Return the mean loss over folds that were left out; of a single row, its loss in training."""
    folds = np.arange(len(x)) % min(FOLDS, len(x))
    total = 0.0
    for fold in range(int(folds.max()) + 1):
        held = folds == fold
        kept = ~held if (~held).any() else held
        weight, bias = model.fit(x[kept], y[kept], strength)
        total += model.loss(x[held] @ weight + bias, y[held]) * held.sum()
    return float(total / len(x))


def fit_ridge(x: Floats, y: Floats, strength: float) -> tuple[Floats, Floats]:
    """Return weight and bias that minimise Σ (x·w + b − y)² + |w|² / C; b has no penalty."""
    center, mean = x.mean(axis=0), y.mean(axis=0)
    x, y = x - center, y - mean
    weight: Floats = np.linalg.solve(x.T @ x + np.eye(x.shape[1]) / strength, x.T @ y)
    return weight, mean - center @ weight


def fit_logistic(x: Floats, y: Floats, strength: float) -> tuple[Floats, Floats]:
    """Return weight and bias of one logistic regression per column of y, each with the penalty |w|² / 2C."""
    import torch.nn.functional as F

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction="sum")

    return _minimise(loss, x, y, strength)


def fit_softmax(x: Floats, y: Floats, strength: float) -> tuple[Floats, Floats]:
    """Return weight and bias of a multinomial logistic regression, with the penalty |w|² / 2C."""
    import torch.nn.functional as F

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="sum")

    return _minimise(loss, x, y, strength)


def _minimise(loss: Callable[[Tensor, Tensor], Tensor], x: Floats, y: Floats, strength: float) -> tuple[Floats, Floats]:
    """Minimise loss + |w|² / 2C by L-BFGS, from zeros: nothing is drawn at random."""
    import torch

    features, targets = torch.from_numpy(x), torch.from_numpy(y)
    weight = torch.zeros(x.shape[1], y.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(y.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=STEPS, tolerance_grad=1e-6, tolerance_change=1e-10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = (loss(features @ weight + bias, targets) + weight.square().sum() / (2 * strength)) / len(x)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.inference_mode(False), torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weight.detach().numpy(), bias.detach().numpy()


def _squared_error(outputs: Floats, targets: Floats) -> float:
    return float(np.square(outputs - targets).mean())


def _logistic_loss(outputs: Floats, targets: Floats) -> float:
    return float((np.logaddexp(0.0, outputs) - targets * outputs).sum(axis=1).mean())


def _softmax_loss(outputs: Floats, targets: Floats) -> float:
    return float((np.logaddexp.reduce(outputs, axis=1) - (targets * outputs).sum(axis=1)).mean())


RIDGE = Model(fit_ridge, _squared_error)
LOGISTIC = Model(fit_logistic, _logistic_loss)
SOFTMAX = Model(fit_softmax, _softmax_loss)
