"""Explained: the number that a model's answer is decided on, as a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.errors import PalbertError
from palbert.model.multitask import MultiTaskModel

TOKENS = {"cpu": 2048, "cuda": 16384, "mps": 8192}
"""The most tokens of a batch: all steps of a usual text; their activations are kept for the way back."""

_is_wanted: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)


class AbandonedError(BaseException):
    """Nobody waits for an explanation any more; not an Exception, so that it is not taken for a failure."""


@contextmanager
def while_wanted(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Ask before each batch of the explanations in the block; raise AbandonedError once they are not wanted."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def refuse_unwanted() -> None:
    """Raise AbandonedError if a block of `while_wanted` runs whose explanations are not wanted any more."""
    if not _is_wanted.get()():
        raise AbandonedError


@dataclass(frozen=True)
class Explained:
    """One number per row: the log odds of a class, or the number that is predicted.

    Args:
        model: The model, in eval mode.
        number: Picks the number from the head's outputs, (rows, outputs) to (rows,), differentiably.
        device: Where the model is.
        arithmetic: The context of forward passes.
    """

    model: MultiTaskModel
    number: Callable[[Tensor], Tensor]
    device: torch.device
    arithmetic: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)

    def __call__(self, batch: PackedBatch, *, embeddings: Tensor | None = None) -> Tensor:
        """Return the numbers of a batch of one part, (rows,); `embeddings` replace the looked-up words."""
        [name] = batch.parts
        with self.arithmetic():
            outputs = self.model(batch, embeddings=embeddings)[name]
        numbers = self.number(outputs)
        if not bool(numbers.isfinite().all()):
            raise PalbertError(
                f"tasks.{name}: the outputs of a text with masked words are not numbers, so they cannot be explained.",
                hint="Divisions and logarithms in a head or pooling of your own may give such outputs.",
            )
        return numbers

    def values(self, batch: PackedBatch) -> NDArray[np.float64]:
        """Return the numbers of a batch, without gradients, (rows,)."""
        with torch.inference_mode():
            found: NDArray[np.float64] = self(batch.to(self.device)).cpu().double().numpy()
        return found

    def chunks(self, copies: int, tokens: int) -> Iterator[slice]:
        """Cut copies of a row into batches; a usual text needs only one.

        Args:
            copies: How many copies there are.
            tokens: The tokens of one copy.
        """
        size = max(1, TOKENS[self.device.type] // max(tokens, 1))
        for start in range(0, copies, size):
            refuse_unwanted()
            yield slice(start, min(start + size, copies))
