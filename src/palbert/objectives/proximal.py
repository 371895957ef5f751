"""Proximal: outputs that stay close to those of averaged weights; the second half of SMART (arXiv:1911.03437)."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Pass, Term
from palbert.options import check_number


class Proximal(Term):
    """μ · ℓ_s(f(x; θ), f(x; θ̃)): momentum Bregman proximal point optimization, section 3.2.

    θ̃ is a moving average of the weights, θ̃ ← β θ̃ + (1 − β) θ after every step of the optimizer; it starts at the
    initial weights and is saved in `checkpoints/last`. The paper solves each proximal problem with several steps before
    it updates θ̃; here θ̃ is updated after every step.

    Dropout: f(x; θ) is the supervised pass, f(x; θ̃) has none. No gradient flows through θ̃.

    Costs one additional forward pass and a second copy of the weights.
    """

    def __init__(self, goals: Mapping[str, Goal], *, weight: float = 1.0, beta: float = 0.99) -> None:
        super().__init__(goals, weight=weight)
        self.beta = check_number("beta", beta, least=0, below=1)
        self.average: MultiTaskModel | None = None

    def prepare(self, model: MultiTaskModel) -> None:
        """Copy the initial weights."""
        if self.weight > 0:
            self.average = copy.deepcopy(model).requires_grad_(False).eval()

    @torch.no_grad()
    def after_step(self, model: MultiTaskModel) -> None:
        """Update the average."""
        if self.average is None:
            return
        for average, weight in zip(self.average.parameters(), model.parameters(), strict=True):
            if weight.requires_grad:
                average.lerp_(weight, 1 - self.beta)

    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return μ ℓ_s of each set."""
        assert self.average is not None, "prepare comes before training"
        with torch.no_grad():
            outputs = self.average(batch)
        return {
            name: self.weight * self.goals[name].target.divergence(forward_pass.outputs[name], outputs[name])
            for name in batch.parts
        }
