"""Supervised losses: cross-entropy for classes, binary cross-entropy for yes or no, MSE for numbers."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Loss, check_loss


def cross_entropy(outputs: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Mean of −log p(label); smoothing spreads that share of every label evenly over the classes."""
    return F.cross_entropy(outputs, labels, label_smoothing=label_smoothing)


def binary_cross_entropy(outputs: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Mean of −log p(label), from one logit a row; smoothing as over two classes."""
    yes = labels.float()
    if label_smoothing:
        yes = yes * (1 - label_smoothing) + label_smoothing / 2
    return F.binary_cross_entropy_with_logits(outputs.squeeze(1), yes)


def mean_squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean of (output − label)²."""
    return F.mse_loss(outputs.squeeze(1), labels.float())


def smoothed(loss: Loss, share: float) -> Loss:
    """Return a loss that spreads a share of every label; the loss itself where that is none."""
    return functools.partial(loss, label_smoothing=share) if share else loss  # type: ignore[call-arg]


class Supervised:
    """The loss of every task on its labels."""

    def __init__(self, losses: Mapping[str, Loss]) -> None:
        self.losses = dict(losses)

    def __call__(self, model: MultiTaskModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return each task's mean loss, times the share of the step's rows that this batch holds."""
        return self.of(batch, {task: [outputs] for task, outputs in model(batch).items()})

    def of(self, batch: PackedBatch, answers: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
        """Return the same, given the model's outputs: the mean where it answered more than once."""
        losses = {}
        for task, each in answers.items():
            part = batch.parts[task]
            assert part.labels is not None, f"{task}: a training batch has labels"
            found = [self.losses[task](outputs, part.labels) for outputs in each]
            for loss in found:
                check_loss("The loss", task, loss, known=batch.parts)
            losses[task] = mean(found) * part.share
        return losses


def mean(losses: Sequence[Tensor]) -> Tensor:
    """Return the mean of losses; of one, itself."""
    return losses[0] if len(losses) == 1 else torch.stack(list(losses)).mean()
