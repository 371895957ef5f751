"""Losses: supervised losses of outputs and labels, each a mean over the rows.

With `reduction="none"` they return the loss of each row instead, (rows,), which weights of rows are applied to.
"""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

Reduction = Literal["mean", "none"]

BOUNDS: dict[str, dict[str, Any]] = {
    "gamma": {"least": 0},
    "delta": {"above": 0},
    "label_smoothing": {"least": 0, "below": 1},
}
"""What the options of the losses below may be, as arguments of `check_number`."""


def cross_entropy(
    outputs: Tensor, labels: Tensor, *, label_smoothing: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Mean of −log p(label); smoothing spreads that share of every label evenly over the classes."""
    return F.cross_entropy(outputs, labels, label_smoothing=label_smoothing, reduction=reduction)


def focal(outputs: Tensor, labels: Tensor, *, gamma: float = 2.0, reduction: Reduction = "mean") -> Tensor:
    """Mean of −(1 − p)^γ log p for p = p(label), less weight for rows that are right already (arXiv:1708.02002)."""
    return _focal(outputs.log_softmax(dim=1).gather(1, labels[:, None]), gamma, reduction)


def binary_cross_entropy(
    outputs: Tensor, labels: Tensor, *, label_smoothing: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Mean of −log p(label), of one logit per label; smoothing as over two classes."""
    yes = labels.float()
    if label_smoothing:
        yes = yes * (1 - label_smoothing) + label_smoothing / 2
    losses = F.binary_cross_entropy_with_logits(outputs.reshape(yes.shape), yes, reduction=reduction)
    return losses if reduction == "mean" else _by_row(losses)


def binary_focal(outputs: Tensor, labels: Tensor, *, gamma: float = 2.0, reduction: Reduction = "mean") -> Tensor:
    """Mean of −(1 − p)^γ log p for p = p(label), of one logit per label (arXiv:1708.02002, without α)."""
    return _focal(F.logsigmoid(outputs.reshape(labels.shape) * (2 * labels.float() - 1)), gamma, reduction)


def _focal(log_p: Tensor, gamma: float, reduction: Reduction) -> Tensor:
    wrong = -log_p.expm1()  # 1 − p, exact for p near 1
    losses = wrong.clamp(min=1e-12) ** gamma * log_p  # for γ < 1, the power has no slope at 0
    return -losses.mean() if reduction == "mean" else -_by_row(losses)


def _by_row(losses: Tensor) -> Tensor:
    """Return the mean over the labels of each row, (rows,), of losses of shape (rows,) or (rows, labels)."""
    return losses.reshape(len(losses), -1).mean(1)


def mean_squared_error(outputs: Tensor, labels: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Mean of (output − label)²."""
    return F.mse_loss(outputs.squeeze(1), labels.float(), reduction=reduction)


def mean_absolute_error(outputs: Tensor, labels: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Mean of |output − label|."""
    return F.l1_loss(outputs.squeeze(1), labels.float(), reduction=reduction)


def huber(outputs: Tensor, labels: Tensor, *, delta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Mean of ½ e² for an error e up to δ, and of δ (|e| − ½ δ) beyond."""
    return F.huber_loss(outputs.squeeze(1), labels.float(), delta=delta, reduction=reduction)
