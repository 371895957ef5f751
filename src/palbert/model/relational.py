"""Relational layers: a layer that related tasks share between the pooled vectors and their heads."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from palbert.options import check_count


class Relation(nn.Module, ABC):
    """A layer that related tasks share, made as `Class(hidden_size, **options)`."""

    @abstractmethod
    def forward(self, vectors: Tensor) -> Tensor:
        """Map (sequences, hidden) to (sequences, hidden)."""


class LinearRelation(Relation):
    """One linear layer h×h, as Sullivan & Kumar use it in front of the heads of quora and sts."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(hidden_size, hidden_size)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (sequences, hidden) to (sequences, hidden)."""
        mapped: Tensor = self.layer(vectors)
        return mapped


class MLPRelation(Relation):
    """A residual MLP, v + W₂ · gelu(W₁ · v): the more complex form that their report proposes.

    Args:
        hidden_size: Width of a vector.
        expansion: Width of the inner layer, in multiples of the hidden size.
    """

    def __init__(self, hidden_size: int, *, expansion: int = 2) -> None:
        super().__init__()
        inner = check_count("expansion", expansion, least=1) * hidden_size
        self.layers = nn.Sequential(nn.Linear(hidden_size, inner), nn.GELU(), nn.Linear(inner, hidden_size))

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (sequences, hidden) to (sequences, hidden)."""
        mapped: Tensor = vectors + self.layers(vectors)
        return mapped
