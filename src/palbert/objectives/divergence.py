"""Divergence: how far apart two outputs for the same rows are, by what the task predicts."""

from __future__ import annotations

import torch
from torch import Tensor

from palbert.tasks.choices import Target


def divergence(first: Tensor, second: Tensor, *, target: Target) -> Tensor:
    """Return the mean over rows of a symmetric distance between outputs, (rows, outputs).

    Symmetric KL, KL(p‖q) + KL(q‖p) = Σ (p − q)(log p − log q), for classes and binary; squared error for
    numbers: ℓ_s of arXiv:1911.03437, section 3.1. It is exactly 0 for equal outputs.
    """
    if target == "number":
        return (first - second).square().sum(1).mean()
    if target == "binary":  # over two classes, the log odds take the place of the two logarithms
        return ((first.sigmoid() - second.sigmoid()) * (first - second)).sum(1).mean()
    p, q = torch.log_softmax(first, dim=1), torch.log_softmax(second, dim=1)
    return ((p.exp() - q.exp()) * (p - q)).sum(1).mean()
