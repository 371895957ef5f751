"""Attention of a single sequence: nothing is padded, gathered or masked."""

from __future__ import annotations

import torch
from torch import Tensor


def attend_alone(query_key_value: Tensor, scores: Tensor | None, scale: float) -> Tensor:
    """Attend as `attend` says, for one sequence outside training.

    Args:
        query_key_value: (tokens, 3, heads, width).
        scores: Added to the scores, (heads, tokens, tokens); None adds nothing.
        scale: Factor on the scores.

    Returns:
        (tokens, heads, width).
    """
    query, key, value = query_key_value.permute(1, 2, 0, 3).unbind()  # each (heads, tokens, width)
    if scores is None:
        products = torch.bmm(query * scale, key.transpose(1, 2))
    else:
        products = torch.baddbmm(scores, query, key.transpose(1, 2), alpha=scale)
    return torch.bmm(products.softmax(-1), value).transpose(0, 1)
