"""Heads: from one pooled vector, or two, to a task's outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from palbert.model.comparison import compare, compared_size
from palbert.options import check_number


class Head(nn.Module, ABC):
    """The part of a model that answers one task.

    A head is made as `Class(hidden_size, outputs=…, dropout=…, **options)`: the width of a vector, the width of the
    answer, the task's dropout, and the recipe's options. A head with an argument `label_range` is also given the lowest
    and highest label of the task, or None.
    """

    vectors: ClassVar[int] = 1
    """How many vectors of an example the head takes: 1, or 2 for siamese pairs."""
    targets: ClassVar[tuple[str, ...]] = ()
    """The targets, and those derived from them, that the head can answer; empty for all."""
    starts: ClassVar[tuple[str, ...]] = ()
    """How the head can start, other than at random: as a "probe", or at the "mean" label."""

    def start(self, weight: NDArray[np.float64], bias: NDArray[np.float64]) -> None:
        """Take the weights of a linear model of mean vectors, (features, outputs) and (outputs,)."""
        raise NotImplementedError

    def start_at(self, mean: float) -> None:
        """Add the mean label to all answers."""
        raise NotImplementedError

    @abstractmethod
    def forward(self, *vectors: Any, **_: Any) -> Tensor:
        """Map `vectors` tensors of shape (examples, hidden) to (examples, outputs)."""


class Linear(Head):
    """Dropout, then one linear layer."""

    starts = ("probe", "mean")

    def __init__(self, hidden_size: int, *, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout = _dropout(dropout)
        self.output = nn.Linear(hidden_size, outputs)

    def forward(self, vector: Tensor) -> Tensor:
        """Map (n, hidden) to (n, outputs)."""
        return self.output(self.dropout(vector))  # type: ignore[no-any-return]

    def start(self, weight: NDArray[np.float64], bias: NDArray[np.float64]) -> None:
        """Answer as the linear model does."""
        with torch.no_grad():
            self.output.weight.copy_(torch.from_numpy(weight.T.copy()))
            self.output.bias.copy_(torch.from_numpy(bias))

    def start_at(self, mean: float) -> None:
        """Begin with the mean as the bias."""
        nn.init.constant_(self.output.bias, mean)


class Compare(Linear):
    """Dropout, then one linear layer on (û, v̂, |û − v̂|, û ∘ v̂, cos), with û and v̂ of length 1."""

    vectors = 2

    def __init__(self, hidden_size: int, *, outputs: int, dropout: float) -> None:
        super().__init__(compared_size(hidden_size), outputs=outputs, dropout=dropout)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]  # siamese tasks give two
        """Map two (n, hidden) to (n, outputs)."""
        *groups, cosine = compare(first, second)
        kept = self.dropout(torch.cat(groups, dim=1))  # the cosine is one number that all answers rely on
        return self.output(torch.cat([kept, cosine], dim=1))  # type: ignore[no-any-return]


class MLP(Head):
    """Dropout, h×h, ReLU, h×c."""

    starts = ("mean",)
    width: ClassVar[int] = 1
    """Vectors that the first layer sees, concatenated."""

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

    def start_at(self, mean: float) -> None:
        """Begin with the mean as the bias."""
        nn.init.constant_(self.layers[-1].bias, mean)  # type: ignore[arg-type]


class Concat(MLP):
    """Both vectors concatenated, (u, v) → h → ReLU → outputs."""

    vectors = 2
    width = 2

    def forward(self, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]  # siamese tasks give two
        """Map two (n, hidden) to (n, outputs)."""
        return self.layers(self.features(first, second))  # type: ignore[no-any-return]

    def features(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the input of the layers."""
        return torch.cat([first, second], dim=1)


class ConcatDifference(Concat):
    """Both vectors and their distance, (u, v, |u − v|) → h → ReLU → outputs (arXiv:1908.10084)."""

    width = 3

    def features(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the input of the layers."""
        return torch.cat([first, second, (first - second).abs()], dim=1)


class Cosine(Head):
    """One h×h layer on both sides, their cosine, ReLU, times the highest label.

    The layer is the same on both sides, so that similarity does not depend on the order.

    Args:
        hidden_size: Width of a vector.
        outputs: Width of the answer, which is 1.
        dropout: Dropout in front of the layer.
        label_range: Lowest and highest label of the task, if it has a range.
        scale: The highest answer; the highest label unless given, or 5 for a task without a range.
    """

    vectors = 2
    targets = ("number",)
    starts = ("probe",)

    def __init__(
        self,
        hidden_size: int,
        *,
        outputs: int,
        dropout: float,
        label_range: tuple[float, float] | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        assert outputs == 1
        self.dropout = _dropout(dropout)
        self.layer = nn.Linear(hidden_size, hidden_size)
        if scale is None:
            scale = label_range[1] if label_range else 5.0
        self.scale = check_number("scale", scale, above=0)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Map two (n, hidden) to (n, 1)."""
        u, v = self.layer(self.dropout(first)), self.layer(self.dropout(second))
        return self.scale * torch.cosine_similarity(u, v, dim=1).relu().unsqueeze(1)

    def start(self, weight: NDArray[np.float64], bias: NDArray[np.float64]) -> None:
        """Answer by the plain cosine of the vectors, whatever the linear model is."""
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(len(self.layer.weight)))
            self.layer.bias.zero_()


def _dropout(rate: float) -> nn.Dropout:
    return nn.Dropout(check_number("dropout", rate, least=0, below=1))
