"""LoRA: low-rank updates of the attention projections (Hu et al. 2021, arXiv:2106.09685)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from palbert.errors import RecipeError, did_you_mean
from palbert.model.adapters.branches import Adapter

PROJECTIONS = ("query", "key", "value")


class LoRA(Adapter):
    """W' = W + (α / r) · B · A for the named projections of every layer; B starts at zero.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        rank: r.
        alpha: α.
        targets: Which of query, key and value are adapted.
        dropout: Share of the inputs dropped, when training.
    """

    def __init__(
        self,
        hidden_size: int,
        *,
        layers: int,
        rank: int = 8,
        alpha: float = 16.0,
        targets: Sequence[str] = ("query", "value"),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not targets:
            raise RecipeError("LoRA needs at least one of query, key and value as targets.")
        for target in targets:
            if target not in PROJECTIONS:
                hint = did_you_mean(target, PROJECTIONS)
                raise RecipeError(f"LoRA cannot adapt '{target}'.", hint=hint)
        self.targets = [name in targets for name in PROJECTIONS]
        self.scale = alpha / rank
        self.dropout = nn.Dropout(dropout)
        adapted = sum(self.targets)
        self.a = nn.ParameterList(torch.empty(adapted, rank, hidden_size) for _ in range(layers))
        self.b = nn.ParameterList(torch.zeros(adapted, hidden_size, rank) for _ in range(layers))
        for a in self.a:
            nn.init.kaiming_uniform_(a.flatten(0, 1), a=math.sqrt(5))

    def query_key_value(self, layer: int, hidden: Tensor) -> Tensor:
        """Return what is added to the fused projection, (tokens, 3 × hidden)."""
        narrow = torch.einsum("th,prh->ptr", self.dropout(hidden), self.a[layer])
        updates = self.scale * torch.einsum("ptr,phr->pth", narrow, self.b[layer])
        # In the updates' format: under autocast, hidden's float32 would make the whole projection float32.
        nothing, coming = torch.zeros_like(updates[0]), iter(updates)
        return torch.cat([next(coming) if adapted else nothing for adapted in self.targets], dim=1)
