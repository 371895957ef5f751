"""Swap invariance: outputs that depend little on which group of people a row names (R-Drop, arXiv:2106.14448)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from palbert.batch import PackedBatch
from palbert.errors import PalbertError
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Pass, Term


class SwapInvariance(Term):
    """Penalise the divergence between the outputs for a row and for its copy that names another group.

    R-Drop with another copy: there the two outputs differ by their dropout masks, here by the words for a group as
    well. The loss becomes ½ (L₁ + L₂) + α ½ (KL(p‖q) + KL(q‖p)); for numbers, α times the squared difference. Both
    losses are those of the set with `form = "identity-swaps"`, whose rows come with their copies. Gradients flow
    through both. Related to counterfactual logit pairing (Garg et al. 2019, arXiv:1809.10610).

    Costs nothing beyond the set itself: row and copy are in the supervised pass already.
    """

    def __init__(self, goals: Mapping[str, Goal], *, weight: float = 1.0) -> None:
        super().__init__({name: goal for name, goal in goals.items() if goal.has_swaps}, weight=weight)
        if not self.goals:
            raise PalbertError(
                "none of its tasks has a set of swaps.",
                hint='Set tasks.<name>.extra.swaps = { form = "identity-swaps" }.',
            )

    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return the weighted divergence of every row and the copy that follows it."""
        values = {}
        for name in batch.parts:
            target, outputs = self.goals[name].target, forward_pass.outputs[name]
            assert len(outputs) % 2 == 0, f"{name}: a row comes with its copy"
            values[name] = self.weight / target.divergence_directions * target.divergence(outputs[1::2], outputs[::2])
        return values
