"""Heads: from one pooled vector, or two, to a task's answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palbert.options import check_number


class Linear(nn.Module):
    """Dropout, then one linear layer."""

    def __init__(self, hidden_size: int, *, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout = _dropout(dropout)
        self.output = nn.Linear(hidden_size, outputs)

    def forward(self, vector: Tensor) -> Tensor:
        """Map (n, hidden) to (n, outputs)."""
        return self.output(self.dropout(vector))  # type: ignore[no-any-return]


class MLP(nn.Module):
    """Dropout, h×h, ReLU, h×c."""

    width = 1
    """Vectors that the first layer sees side by side."""

    def __init__(self, hidden_size: int, *, outputs: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _dropout(dropout),
            nn.Linear(self.width * hidden_size, hidden_size),
            nn.ReLU(),
            nn.Linear(hidden_size, outputs),
        )

    def forward(self, vector: Tensor) -> Tensor:
        """Map (n, hidden) to (n, outputs)."""
        return self.layers(vector)  # type: ignore[no-any-return]


class Concat(MLP):
    """Both vectors side by side, (u, v) → h → ReLU → outputs."""

    width = 2

    def forward(self, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]  # siamese tasks give two
        """Map two (n, hidden) to (n, outputs)."""
        return self.layers(self.features(first, second))  # type: ignore[no-any-return]

    def features(self, first: Tensor, second: Tensor) -> Tensor:
        """Return what the layers see."""
        return torch.cat([first, second], dim=1)


class ConcatDifference(Concat):
    """Both vectors and their distance, (u, v, |u − v|) → h → ReLU → outputs (arXiv:1908.10084)."""

    width = 3

    def features(self, first: Tensor, second: Tensor) -> Tensor:
        """Return what the layers see."""
        return torch.cat([first, second, (first - second).abs()], dim=1)


class Cosine(nn.Module):
    """One h×h layer on both sides, their cosine, ReLU, times the highest label.

    The layer is the same on both sides, so that similarity does not depend on the order.
    """

    def __init__(self, hidden_size: int, *, outputs: int, dropout: float, scale: float = 5.0) -> None:
        super().__init__()
        assert outputs == 1
        self.dropout = _dropout(dropout)
        self.layer = nn.Linear(hidden_size, hidden_size)
        self.scale = check_number("scale", scale, above=0)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Map two (n, hidden) to (n, 1)."""
        u, v = self.layer(self.dropout(first)), self.layer(self.dropout(second))
        return self.scale * torch.cosine_similarity(u, v, dim=1).relu().unsqueeze(1)


def _dropout(rate: float) -> nn.Dropout:
    return nn.Dropout(check_number("dropout", rate, least=0, below=1))
