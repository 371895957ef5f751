"""R-Drop: outputs that depend little on the dropout masks (Wu et al. 2021, arXiv:2106.14448)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from palbert.batch import PackedBatch
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Pass, Term


class RDrop(Term):
    """Compute every row twice with different dropout masks, and penalise the divergence of the two outputs.

    The supervised loss becomes the mean over both, and α ½ (KL(p‖q) + KL(q‖p)) is added; for numbers, α times the
    squared difference. Gradients flow through both. The paper uses the sum of both losses; the mean, as in the
    authors' code, keeps the scale of a loss without R-Drop.

    As in the paper, this is one pass over a batch that holds every row twice.
    """

    averages = True

    def __init__(self, goals: Mapping[str, Goal], *, weight: float = 1.0) -> None:
        super().__init__(goals, weight=weight)

    @property
    def compares(self) -> bool:
        """True: the term compares two computations of the same rows."""
        return True

    def prepare(self, model: MultiTaskModel) -> None:
        """Raise RecipeError for a model without dropout, whose two outputs would be equal."""
        config = model.encoder.config
        if self.weight == 0 or config.dropout or config.attention_dropout:
            return
        still = sorted({goal.task for goal in self.goals.values() if not goal.dropout})
        if still:
            raise RecipeError(
                "objectives: rdrop compares two passes with different dropout, and there is none for "
                f"{', '.join(still)}.",
                hint="Set encoder.dropout or the task's dropout above 0, or leave rdrop out.",
            )

    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return the weighted divergence of both outputs."""
        assert forward_pass.second is not None
        values = {}
        for name in batch.parts:
            target, first, second = (
                self.goals[name].target,
                forward_pass.outputs[name],
                forward_pass.second.outputs[name],
            )
            values[name] = self.weight / target.divergence_directions * target.divergence(second, first)
        return values
