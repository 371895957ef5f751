"""Relational layers: a layer that related tasks share between the pooled vectors and their heads."""

from __future__ import annotations

from torch import Tensor, nn

from palbert.options import check_count


class LinearRelation(nn.Module):
    """One linear layer h×h, as Sullivan & Kumar put before the heads of quora and sts."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(hidden_size, hidden_size)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (sequences, hidden) to (sequences, hidden)."""
        mapped: Tensor = self.layer(vectors)
        return mapped


class MLPRelation(nn.Module):
    """A residual MLP, v + W₂ · gelu(W₁ · v): the more complex form that their report asks for."""

    def __init__(self, hidden_size: int, *, expansion: int = 2) -> None:
        super().__init__()
        inner = check_count("expansion", expansion, least=1) * hidden_size
        self.layers = nn.Sequential(nn.Linear(hidden_size, inner), nn.GELU(), nn.Linear(inner, hidden_size))

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (sequences, hidden) to (sequences, hidden)."""
        mapped: Tensor = vectors + self.layers(vectors)
        return mapped
