"""SimCSE: pull two dropout views of a text together, away from other texts (Gao et al. 2021, arXiv:2104.08821)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Pass, Term, check_trained
from palbert.options import check_number, check_switch
from palbert.runtime.distributed import Ranks


class SimCSE(Term):
    """InfoNCE over the cosines of the pooled vectors of two dropout views of each text, unsupervised.

    Both views are computed in the supervised pass, whose batch then holds every text twice. Each text has to find
    itself among the texts of its set in the batch. For siamese pairs, first sentences are compared with first ones and
    second with second ones, so that the two sentences of a pair, which may mean the same, are never contrasted. A joint
    pair is one text; with `projection`, its two views go through a linear layer before they are compared. The layer
    starts as the identity, is trained at the heads' rate, and is used in training only: it is saved in
    `checkpoints/last`, not in the model.

    With `dropout`, both views are separate passes with that rate for hidden states and attention probabilities; the
    supervised pass and adapters keep theirs.

    In a batch of one row, the term is 0. The loss depends on the other rows of a batch, so splitting a step
    (`training.accumulation`) changes it.

    Costs a supervised pass over twice the rows; with `dropout`, two additional passes.
    """

    def __init__(
        self,
        goals: Mapping[str, Goal],
        *,
        weight: float = 1.0,
        temperature: float = 0.05,
        projection: bool = True,
        dropout: float | None = None,
    ) -> None:
        super().__init__(goals, weight=weight)
        self.temperature = check_number("temperature", temperature, above=0)
        self.projection = check_switch("projection", projection)
        self.dropout = None if dropout is None else check_number("dropout", dropout, above=0, below=1)
        self.layers = nn.ModuleList()
        self.layer_of: dict[str, int] = {}
        self.ranks = Ranks()

    @property
    def compares(self) -> bool:
        """Whether the supervised pass computes both views."""
        return self.dropout is None

    def prepare(self, model: MultiTaskModel) -> None:
        """Raise RecipeError for an encoder without dropout or trained weights; create the layers of joint pairs."""
        if self.weight == 0:
            return
        config = model.encoder.config
        if not (self.dropout or config.dropout or config.attention_dropout):
            raise RecipeError(
                "objectives: simcse compares two passes with different dropout, and the encoder has none.",
                hint="Set encoder.dropout or the term's own dropout above 0, or leave simcse out.",
            )
        check_trained("simcse", model, self.goals)
        device = next(model.parameters()).device
        joint = {name: goal.task for name, goal in self.goals.items() if goal.joint and self.projection}
        owners = list(dict.fromkeys(joint.values()))  # all sets of a task share its layer
        self.layer_of = {name: owners.index(task) for name, task in joint.items()}
        self.layers = nn.ModuleList(_identity(config.hidden_size) for _ in owners).to(device)

    def join(self, ranks: Ranks) -> None:
        """Contrast the texts of all processes."""
        self.ranks = ranks

    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return the weighted InfoNCE loss of each set."""
        first, second = self.views(model, batch, forward_pass)
        values = {}
        # The cosines are divided by a small temperature: bf16 would be too coarse.
        with torch.autocast(batch.ids.device.type, enabled=False):
            for name, part in batch.parts.items():
                views = first[name].float(), second[name].float()
                if name in self.layer_of:
                    layer = self.layers[self.layer_of[name]]
                    views = layer(views[0]), layer(views[1])
                sides = zip(views[0].chunk(part.width), views[1].chunk(part.width), strict=True)
                losses = [self._contrast(one, other, part) for one, other in sides]
                values[name] = self.weight * torch.stack(losses).mean()
        return values

    def _contrast(self, first: Tensor, second: Tensor, part: Part) -> Tensor:
        """Return the loss of this process's texts among those of all processes."""
        among, start = self.ranks.join_rows(second, part.examples_by_rank)
        return info_nce(first, among, temperature=self.temperature, start=start)

    def views(
        self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass
    ) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        """Return the pooled vectors of both views."""
        if self.dropout is None:
            assert forward_pass.second is not None
            return forward_pass.vectors, forward_pass.second.vectors
        with model.encoder.with_dropout(self.dropout):
            return model.vectors(batch), model.vectors(batch)


def info_nce(first: Tensor, second: Tensor, *, temperature: float, start: int = 0) -> Tensor:
    """Return the mean of −log softmax_j(cos(a_i, b_j) / τ) at j = start + i.

    Args:
        first: The anchors, (rows, hidden).
        second: Their positives in the same order, optionally among further rows, (rows or more, hidden).
        temperature: τ.
        start: The place of the first positive.
    """
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).t()  # (rows, rows or more)
    return F.cross_entropy(cosines / temperature, torch.arange(start, start + len(first), device=first.device))


def _identity(size: int) -> nn.Linear:
    """Make a linear layer that is the identity, without drawing random numbers."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, size, size)  # type: ignore[no-untyped-call]
    nn.init.eye_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
