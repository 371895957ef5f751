"""Supervised SimCSE: pull a text and what it entails together (Gao et al. 2021, arXiv:2104.08821)."""

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
from palbert.runtime.distributed import Ranks


class SupervisedSimCSE(Term):
    """InfoNCE over the cosines of the pooled vectors of triplets (anchor, positive, hard negative), equation 5.

    Each anchor has to find its positive among the positives and hard negatives of the batch; with
    `hard_negatives = false`, among the positives only. The vectors come from the pass over the batch, with the task's
    pooling and adapters; the heads are not used. The paper adds a layer to the first token's vector; here the compared
    vectors are those that heads read, and pooling "pooler" has such a layer.

    The loss depends on the other rows of a batch, so splitting a step (`training.accumulation`) changes it.

    Costs no additional pass.
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
        self.ranks = Ranks()

    def join(self, ranks: Ranks) -> None:
        """Contrast the triplets of all processes."""
        self.ranks = ranks

    def prepare(self, model: MultiTaskModel) -> None:
        """Raise RecipeError for a model without trained weights in front of the heads."""
        if self.weight > 0:
            check_trained("supervised-simcse", model, self.goals)

    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return the weighted loss of each set of triplets."""
        values = {}
        # The cosines are divided by a small temperature: bf16 would be too coarse.
        with torch.autocast(batch.ids.device.type, enabled=False):
            for name, part in batch.parts.items():
                anchors, *others = forward_pass.vectors[name].float().chunk(part.width)  # each (rows, hidden)
                chosen = others if self.hard_negatives else others[:1]
                joined = [self.ranks.join_rows(each, part.examples_by_rank) for each in chosen]
                among, start = torch.cat([rows for rows, _ in joined]), joined[0][1]
                values[name] = self.weight * info_nce(anchors, among, temperature=self.temperature, start=start)
        return values
