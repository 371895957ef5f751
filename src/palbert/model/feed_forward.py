"""Feed-forward networks: what happens between their two linear layers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from palbert.model.activations import ACTIVATIONS


class FeedForward(nn.Module, ABC):
    """The part of a feed-forward network without weights of its own; the block owns the linear layers around it.

    Args:
        activation: A key of `ACTIVATIONS`.
    """

    def __init__(self, activation: str) -> None:
        super().__init__()
        self.name = activation
        self.activation = ACTIVATIONS[activation]

    @staticmethod
    @abstractmethod
    def outputs(intermediate_size: int) -> int:
        """Return the outputs of the first linear layer, given the inputs of the second."""

    @abstractmethod
    def forward(self, values: Tensor) -> Tensor:
        """Map the outputs of the first linear layer to the inputs of the second."""


class PlainFeedForward(FeedForward):
    """W₂ · a(W₁ x): the activation alone."""

    @staticmethod
    def outputs(intermediate_size: int) -> int:
        """Return as many."""
        return intermediate_size

    def forward(self, values: Tensor) -> Tensor:
        """Return a(values)."""
        return self.activation(values)


class GatedFeedForward(FeedForward):
    """W₂ · (a(V x) ⊙ U x), with V and U as the two halves of one linear layer (Shazeer 2020, arXiv:2002.05202)."""

    @staticmethod
    def outputs(intermediate_size: int) -> int:
        """Return twice as many: a half that is activated, and its gate."""
        return 2 * intermediate_size

    def forward(self, values: Tensor) -> Tensor:
        """Return the activated half times the gate."""
        activated, gate = values.chunk(2, dim=-1)
        return self.activation(activated) * gate


FEED_FORWARDS: dict[str, type[FeedForward]] = {"plain": PlainFeedForward, "gated": GatedFeedForward}
