"""Logit adjustment: predict for other class shares than those of the training rows (Menon et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.errors import DataError
from palbert.objectives import Loss
from palbert.objectives.losses import Reduction
from palbert.targets import Target

ROUNDING = 1e-9
"""Shifts up to this come from rounding and are ignored."""


class LogitAdjusted:
    """A loss of the logits f(x) + log(π_train / π), so that f(x) itself predicts for the prior π.

    By Bayes' rule, p(y | x) ∝ p(x | y) π(y): if the texts of a class are alike in both places and only the class shares
    differ, the logits for the training rows are those for π plus log(π_train / π). Equation 10 of arXiv:2007.07314,
    which has a uniform π. Weights π / π_train on the rows have the same optimum, but hardly affect a network that can
    fit its training rows (arXiv:1812.03372), and make gradients noisier.
    """

    def __init__(self, loss: Loss, shift: NDArray[np.float64]) -> None:
        self.loss = loss
        self.shift = torch.from_numpy(shift).float()

    def __call__(self, outputs: Tensor, labels: Tensor, *, reduction: Reduction = "mean") -> Tensor:
        """Return the loss of the shifted outputs, (rows, outputs)."""
        if self.shift.device != outputs.device:  # copied once, from pinned memory, without waiting
            shift = self.shift.pin_memory() if outputs.is_cuda else self.shift
            self.shift = shift.to(outputs.device, non_blocking=True)
        rows = {} if reduction == "mean" else {"reduction": reduction}  # a loss of others may not take it
        return self.loss(outputs + self.shift, labels, **rows)


def class_shares(target: Target, labels: NDArray[Any], weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Return the share of each class among rows, or of the weight of the rows with each class."""
    if weights is None:
        return target.class_counts(labels) / len(labels)
    unique, inverse = np.unique(labels, axis=0, return_inverse=True)
    totals = np.bincount(inverse.reshape(-1), weights=weights)
    counts = [total * target.class_counts(unique[index : index + 1]) for index, total in enumerate(totals)]
    return np.asarray(np.sum(counts, axis=0) / totals.sum(), dtype=np.float64)


def adjusted(
    loss: Loss,
    labels: NDArray[Any],
    prior: Sequence[float],
    *,
    target: Target,
    name: str,
    weights: NDArray[Any] | None = None,
) -> Loss:
    """Return a loss whose outputs are for a prior; the loss itself if the labels have these shares already.

    Args:
        loss: The loss of outputs and labels.
        labels: Those of all training rows of the set, whose shares are π_train.
        prior: The share of each class where the model will be used.
        target: What an answer is.
        name: The set, for errors.
        weights: How much each row counts; all alike unless given.
    """
    shares = class_shares(target, labels, weights)
    for share, lack in ((0, "none of"), (1, "no row without")):
        if (shares == share).any():
            found = ", ".join(str(index) for index in np.flatnonzero(shares == share))
            raise DataError(
                f"{name} train: a prior needs rows of every class, found {lack} class {found} (from 0).",
                hint="Leave the prior out, or the set.",
            )
    shift = target.logit_shift(shares, prior)
    return LogitAdjusted(loss, shift) if np.abs(shift).max() > ROUNDING else loss
