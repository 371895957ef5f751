"""Supervised: the loss of every training set on its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.objectives import Loss, check_loss
from palbert.objectives.row_losses import part_loss


class Supervised:
    """The loss of every training set on its labels."""

    def __init__(self, losses: Mapping[str, Loss]) -> None:
        self.losses = dict(losses)

    def __call__(self, batch: PackedBatch, answers: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
        """Return each set's mean loss, rows weighted, times the share of the step's rows that this batch holds.

        Args:
            batch: The batch, with labels.
            answers: Each set's outputs; if there are several, their losses are averaged.
        """
        losses = {}
        for name, each in answers.items():
            part = batch.parts[name]
            found = [part_loss(self.losses[name], outputs, part, name=name) for outputs in each]
            for loss in found:
                check_loss("The loss", name, loss, known=batch.parts)
            losses[name] = mean(found) * part.share
        return losses


def mean(losses: Sequence[Tensor]) -> Tensor:
    """Return the mean of the losses; a single one is returned as it is."""
    return losses[0] if len(losses) == 1 else torch.stack(list(losses)).mean()
