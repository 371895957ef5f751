"""Objectives: the supervised losses and the terms beside them, added up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Objective, Pass, Term
from palbert.objectives.distillation import Distillation
from palbert.objectives.proximal import Proximal
from palbert.objectives.rdrop import RDrop
from palbert.objectives.simcse import SimCSE
from palbert.objectives.smart import SMART
from palbert.objectives.supervised import Supervised


class Objectives(Objective):
    """The supervised losses, and terms added to them.

    A module, because terms may have parameters and state; the model is not one of its parts.
    """

    def __init__(self, supervised: Supervised, terms: Iterable[Term] = ()) -> None:
        super().__init__()
        self.supervised = supervised
        self._terms = nn.ModuleList(terms)

    @property
    def terms(self) -> Sequence[Term]:
        """The terms, in the recipe's order."""
        return list(self._terms)  # type: ignore[arg-type]

    def prepare(self, model: MultiTaskModel) -> None:
        """Let every term look at the model, before training."""
        for term in self.terms:
            term.prepare(model)

    def after_step(self, model: MultiTaskModel) -> None:
        """Let every term follow the weights, after a step of the optimizer."""
        for term in self.terms:
            term.after_step(model)

    def forward(self, model: MultiTaskModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return each task's loss, times the share of the step's rows that this batch holds."""
        vectors = model.vectors(batch)
        clean = Pass(vectors, model.answers(batch, vectors))
        losses = self.supervised.of(batch, clean.outputs)
        for term in self.terms:
            for task, value in term(model, batch, clean).items():
                losses[task] = losses[task] + value
        return losses


OBJECTIVES: dict[str, type[Term]] = {
    "distillation": Distillation,
    "proximal": Proximal,
    "rdrop": RDrop,
    "simcse": SimCSE,
    "smart": SMART,
}
