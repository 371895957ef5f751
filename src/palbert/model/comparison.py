"""Comparison: what two vectors of a pair say together, for heads and probes."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def compare(first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    """Return û, v̂, |û − v̂|, û ∘ v̂, each (n, hidden), and their cosine, (n, 1); û and v̂ have length 1."""
    u, v = F.normalize(first, dim=1), F.normalize(second, dim=1)
    product = u * v
    return u, v, (u - v).abs(), product, product.sum(1, keepdim=True)


def compared_size(hidden_size: int) -> int:
    """Return how many numbers `compare` gives per pair."""
    return 4 * hidden_size + 1
