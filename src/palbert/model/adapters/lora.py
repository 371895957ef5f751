"""LoRA: low-rank updates of the attention projections (Hu et al. 2021, arXiv:2106.09685)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.errors import PalbertError, did_you_mean
from palbert.model.adapters.branches import Adapter, Additions
from palbert.model.adapters.groups import Groups, stack
from palbert.options import check_count, check_number

PROJECTIONS = ("query", "key", "value")


class LoRA(Adapter):
    """W' = W + (α / r) · B · A for the named projections of every layer; B starts at zero.

    Args:
        hidden_size: Width of the encoder.
        layers: Layers of the encoder.
        rank: r.
        alpha: α.
        targets: Which of query, key and value are adapted.
        dropout: Share of the inputs dropped, in training.
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
        if isinstance(targets, str) or not isinstance(targets, Sequence) or not targets:
            raise PalbertError(f"targets: expected a list of at least one of query, key and value, found {targets!r}.")
        for target in targets:
            if target not in PROJECTIONS:
                hint = did_you_mean(str(target), PROJECTIONS)
                raise PalbertError(f"targets: LoRA cannot adapt '{target}'.", hint=hint)
        self.targets = [name in targets for name in PROJECTIONS]
        self.hidden_size, self.rank = hidden_size, check_count("rank", rank, least=1)
        self.scale = check_number("alpha", alpha, above=0) / rank
        self.dropout = nn.Dropout(check_number("dropout", dropout, least=0, below=1))
        adapted = sum(self.targets)
        self.a = nn.ParameterList(torch.empty(adapted, rank, hidden_size) for _ in range(layers))
        self.b = nn.ParameterList(torch.zeros(adapted, hidden_size, rank) for _ in range(layers))
        for a in self.a:
            nn.init.kaiming_uniform_(a.flatten(0, 1), a=math.sqrt(5))

    @property
    def shape(self) -> Hashable:
        """Width, rank, layers, targets, scale and dropout."""
        rate = self.dropout.p if self.training else 0.0
        return type(self), self.hidden_size, self.rank, len(self.a), tuple(self.targets), self.scale, rate

    def together(self, adapters: Sequence[Adapter], groups: Groups) -> GroupedLoRA:
        """Return the additions of several adapters."""
        return GroupedLoRA([adapter for adapter in adapters if isinstance(adapter, LoRA)], groups)

    def weight_update(self, layer: int) -> Tensor:
        """Return (α / r) · B · A of each projection, zero for those that are not adapted, (3 × hidden, hidden)."""
        products = iter(self.scale * (self.b[layer] @ self.a[layer]))  # (adapted, hidden, hidden)
        nothing = self.a[layer].new_zeros(self.hidden_size, self.hidden_size)
        return torch.cat([next(products) if target else nothing for target in self.targets])


class GroupedLoRA(Additions):
    """The LoRAs of one pass, one per group of tokens; their ranks are padded with zeros to an aligned one."""

    def __init__(self, adapters: Sequence[LoRA], groups: Groups) -> None:
        first = adapters[0]
        hidden, rank, adapted = first.hidden_size, first.rank, sum(first.targets)
        even = groups.aligned(rank)
        self.groups, self.dropout = groups, first.dropout
        a = stack([each.a for each in adapters], (adapted, rank, hidden), (adapted, even, hidden))
        b = first.scale * stack([each.b for each in adapters], (adapted, hidden, rank), (adapted, hidden, even))
        self.a = a.flatten(2, 3).unbind()
        self.b = torch.cat(_blocks(b, first.targets), dim=2).unbind()

    def query_key_value(self, layer: int, hidden: Tensor) -> Tensor:
        """Return what is added to the fused projection, (tokens, 3 × hidden)."""
        narrow = self.groups.product(self.dropout(hidden), self.a[layer])  # (tokens, adapted × rank)
        return self.groups.product(narrow, self.b[layer])


def _blocks(b: Tensor, targets: Sequence[bool]) -> list[Tensor]:
    """Return the rows of query, key and value in one B for all: each reads its own A, and is zero elsewhere."""
    _, _, adapted, _, rank = b.shape
    coming = (F.pad(own, (place * rank, (adapted - 1 - place) * rank)) for place, own in enumerate(b.unbind(2)))
    nothing = b.new_zeros(*b.shape[:2], b.shape[3], adapted * rank)
    return [next(coming) if target else nothing for target in targets]
