"""Objectives: the sum of the supervised losses and the terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Pass, Term
from palbert.objectives.balance import Balance
from palbert.objectives.objective import Objective
from palbert.objectives.supervised import Supervised
from palbert.runtime.distributed import Ranks

Reader = Callable[[MultiTaskModel], MultiTaskModel]
"""Returns the model that reads batches on behalf of the model under training, with the same heads."""


def itself(model: MultiTaskModel) -> MultiTaskModel:
    """Let the model under training read its batches itself."""
    return model


class Objectives(Objective):
    """The supervised losses, terms added to them, and the balance between the tasks.

    It is a module because terms and balance may have parameters and buffers; the model is not part of it.
    """

    def __init__(self, supervised: Supervised, terms: Iterable[Term] = (), *, balance: Balance | None = None) -> None:
        super().__init__(balance=balance)
        self.supervised = supervised
        self._terms = nn.ModuleList(terms)
        self.reader: Reader = itself
        """What reads the batches: the model, or its heads on stored states."""

    @property
    def terms(self) -> Sequence[Term]:
        """The terms, in the recipe's order."""
        return list(self._terms)  # type: ignore[arg-type]

    def prepare(self, model: MultiTaskModel) -> None:
        """Prepare every term for the model, and move the balance to its device."""
        self.balance.to(next(model.parameters()).device)
        for term in self.terms:
            term.prepare(model)

    def join(self, ranks: Ranks) -> None:
        """Tell every term which processes train together."""
        for term in self.terms:
            term.join(ranks)

    def after_step(self, model: MultiTaskModel, losses: Mapping[str, Tensor]) -> None:
        """Update terms and balance after a step of the optimizer."""
        super().after_step(model, losses)
        for term in self.terms:
            term.after_step(model)

    def forward(self, model: MultiTaskModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return each set's loss before balancing, times the share of the step's rows that this batch holds.

        A set of triplets has no supervised loss, only terms.
        """
        model = self.reader(model)
        terms = [term for term in self.terms if term.weight]
        compared = {name for term in terms if term.compares for name in term.goals}
        averaged = {name for term in terms if term.averages for name in term.goals}
        forward_pass = Pass.of(model, batch, repeated=compared, averaged=averaged)
        losses = self.supervised(batch, {name: forward_pass.answers(name) for name in forward_pass.outputs})
        for term in terms:
            for name, value in term(model, batch, forward_pass).items():
                losses[name] = losses[name] + value if name in losses else value
        return losses
