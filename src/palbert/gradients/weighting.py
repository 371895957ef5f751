"""Weightings: from the Gram matrix of the tasks' gradients to one weight per task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from palbert.errors import MissingExtraError


class Weighting(ABC):
    """A pure function of the Gram matrix, made as `Class(**options)`."""

    shared_options: ClassVar[Mapping[str, Any]] = {"memory": "keep"}
    """Options that palbert reads for every weighting, with their defaults."""

    @abstractmethod
    def __call__(self, gram: Tensor) -> Tensor:
        """Return the weight of each task's gradient in the update, (tasks,).

        Args:
            gram: All inner products ⟨g_i, g_j⟩, (tasks, tasks), on the CPU and scaled to a mean diagonal of 1. The
                tasks are in the recipe's order; tasks of weight 0 are left out.
        """


class TorchJDWeighting(Weighting):
    """One of torchjd's weightings (https://torchjd.org).

    Args:
        name: The name of the class in `torchjd.aggregation`.
        options: Its options.
    """

    def __init__(self, name: str, **options: Any) -> None:
        try:
            from torchjd import aggregation

            self._weighting = getattr(aggregation, name)(**options)
        except ImportError as error:  # torchjd itself, or the solver that this weighting needs
            raise MissingExtraError("Gradient methods need", package="torchjd", extra="gradients") from error

    def __call__(self, gram: Tensor) -> Tensor:
        """Return torchjd's weights."""
        weights: Tensor = self._weighting(gram)
        return weights
