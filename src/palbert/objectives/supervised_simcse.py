"""Supervised SimCSE: what follows from a text is nearest to it (Gao et al. 2021, arXiv:2104.08821)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Pass, Term, check_trained
from palbert.objectives.simcse import info_nce
from palbert.options import check_number, check_switch


class SupervisedSimCSE(Term):
    """InfoNCE over the cosines of the pooled vectors of triplets (anchor, positive, hard negative), equation 5.

    Each anchor is to find its positive among the positives and hard negatives of the batch; with
    `hard_negatives = false` among the positives alone. The vectors are those of the one pass over the batch, with
    the task's pooling and adapters; the heads have no part in it. The paper puts a layer on the first token's
    vector; here the vectors that are compared are those that the heads read, and pooling "pooler" has such a layer.

    The other rows of a batch are part of the loss, so cutting a step into pieces (`training.accumulation`)
    changes it.

    Costs no pass beside that over the triplets.
    """

    triplets: ClassVar[bool] = True

    def __init__(
        self,
        goals: Mapping[str, Goal],
        *,
        weight: float = 1.0,
        temperature: float = 0.05,
        hard_negatives: bool = True,
    ) -> None:
        super().__init__(goals, weight=weight)
        self.temperature = check_number("temperature", temperature, above=0)
        self.hard_negatives = check_switch("hard_negatives", hard_negatives)

    def prepare(self, model: MultiTaskModel) -> None:
        """Refuse a model without a weight to train before the heads."""
        if self.weight > 0:
            check_trained("supervised-simcse", model, self.goals)

    def values(self, model: MultiTaskModel, batch: PackedBatch, clean: Pass) -> dict[str, Tensor]:
        """Return the weighted loss of each set of triplets."""
        values = {}
        # The cosines are divided by a small temperature: bf16 would be too coarse.
        with torch.autocast(batch.ids.device.type, enabled=False):
            for name, part in batch.parts.items():
                anchors, *others = clean.vectors[name].float().chunk(part.width)  # each (rows, hidden)
                among = torch.cat(others) if self.hard_negatives else others[0]
                values[name] = self.weight * info_nce(anchors, among, temperature=self.temperature)
        return values
