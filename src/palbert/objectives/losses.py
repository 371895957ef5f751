"""Losses: supervised losses of outputs and labels, each a mean over the rows."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

BOUNDS: dict[str, dict[str, Any]] = {
    "gamma": {"least": 0},
    "delta": {"above": 0},
    "label_smoothing": {"least": 0, "below": 1},
}
"""What the options of the losses below may be, as arguments of `check_number`."""


def cross_entropy(outputs: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Mean of −log p(label); smoothing spreads that share of every label evenly over the classes."""
    return F.cross_entropy(outputs, labels, label_smoothing=label_smoothing)


def focal(outputs: Tensor, labels: Tensor, *, gamma: float = 2.0) -> Tensor:
    """Mean of −(1 − p)^γ log p for p = p(label), less weight for rows that are right already (arXiv:1708.02002)."""
    return _focal(outputs.log_softmax(dim=1).gather(1, labels[:, None]), gamma)


def binary_cross_entropy(outputs: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Mean of −log p(label), of one logit per label; smoothing as over two classes."""
    yes = labels.float()
    if label_smoothing:
        yes = yes * (1 - label_smoothing) + label_smoothing / 2
    return F.binary_cross_entropy_with_logits(outputs.reshape(yes.shape), yes)


def binary_focal(outputs: Tensor, labels: Tensor, *, gamma: float = 2.0) -> Tensor:
    """Mean of −(1 − p)^γ log p for p = p(label), of one logit per label (arXiv:1708.02002, without α)."""
    return _focal(F.logsigmoid(outputs.reshape(labels.shape) * (2 * labels.float() - 1)), gamma)


def _focal(log_p: Tensor, gamma: float) -> Tensor:
    wrong = -log_p.expm1()  # 1 − p, exact for p near 1
    return -(wrong.clamp(min=1e-12) ** gamma * log_p).mean()  # for γ < 1, the power has no slope at 0


def mean_squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean of (output − label)²."""
    return F.mse_loss(outputs.squeeze(1), labels.float())


def mean_absolute_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean of |output − label|."""
    return F.l1_loss(outputs.squeeze(1), labels.float())


def huber(outputs: Tensor, labels: Tensor, *, delta: float = 1.0) -> Tensor:
    """Mean of ½ e² for an error e up to δ, and of δ (|e| − ½ δ) beyond."""
    return F.huber_loss(outputs.squeeze(1), labels.float(), delta=delta)
