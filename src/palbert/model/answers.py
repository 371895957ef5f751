"""Answers: from a head's outputs to predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Answers:
    """What a head predicts for some rows."""

    predicted: NDArray[Any]
    """Class indices (int64) or numbers (float64)."""
    probabilities: NDArray[np.float64] | None
    """(rows, classes), where there are classes."""


def decode(
    outputs: Tensor,
    *,
    target: Literal["classes", "binary", "number"],
    range: tuple[float, float] | None = None,
) -> Answers:
    """Read a head's outputs, (rows, outputs): most likely class, yes above one half, or a number."""
    values = outputs.double().cpu()
    if target == "number":
        numbers = values.squeeze(1).numpy()
        return Answers(numbers if range is None else np.clip(numbers, *range), None)
    if target == "binary":
        yes = torch.sigmoid(values.squeeze(1))
        probabilities = torch.stack([1 - yes, yes], dim=1)
        return Answers((yes > 0.5).long().numpy(), probabilities.numpy())
    probabilities = values.softmax(dim=1)
    return Answers(probabilities.argmax(dim=1).numpy(), probabilities.numpy())
