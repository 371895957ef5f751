"""Bernoulli: what targets have in common whose outputs are one logit per yes-or-no decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def bernoulli_divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean over rows of the symmetric KL divergence, summed over the logits, (rows, logits).

    KL(p‖q) + KL(q‖p) of two Bernoulli distributions is (p − q)(a − b), with the log odds a and b.
    """
    return ((first.sigmoid() - second.sigmoid()) * (first - second)).sum(1).mean()


def bernoulli_soft_loss(outputs: Tensor, teacher_outputs: Tensor, *, temperature: float) -> Tensor:
    """Return T² · binary cross-entropy with the mean of the teachers' probabilities at temperature T."""
    import torch.nn.functional as F

    mean = (teacher_outputs / temperature).sigmoid().mean(1)
    return temperature**2 * F.binary_cross_entropy_with_logits(outputs / temperature, mean)
