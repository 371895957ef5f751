"""Groups: consecutive groups of tokens, each with its own weights, multiplied in one product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

STEP = 8
"""Products in half precision are fast if widths are multiples of this."""
GROUPED = (9, 10)
"""Major CUDA capabilities with a kernel for grouped products; on others, torch makes the host wait."""


class Groups:
    """Consecutive groups of tokens, each with its own weights.

    Args:
        sizes: Tokens of each group.
        ends: Where each group ends, counted from the first token of the first group, int32, on the device.
    """

    def __init__(self, sizes: Sequence[int], ends: Tensor) -> None:
        self.sizes = list(sizes)
        self.ends = ends

    def aligned(self, width: int) -> int:
        """Return the width to pad a weight to; on the CPU, any width is fine."""
        return width if self.ends.device.type == "cpu" else width + -width % STEP

    def product(self, values: Tensor, weights: Tensor, biases: Tensor | None = None) -> Tensor:
        """Return x Wᵀ with each group's own W, or x Wᵀ + b.

        Args:
            values: (tokens, columns).
            weights: (groups, rows, columns).
            biases: (groups, rows).

        Returns:
            (tokens, rows).
        """
        values = values.to(weights.dtype)
        if len(self.sizes) == 1:
            return F.linear(values, weights.flatten(0, 1), None if biases is None else biases[0])
        each = [None] * len(self.sizes) if biases is None else biases.unbind()
        if _has_kernel(values, weights):
            found = F.grouped_mm(values, weights.transpose(1, 2), offs=self.ends)
            repeated = [bias.expand(size, -1) for size, bias in zip(self.sizes, each, strict=True) if bias is not None]
            return found + torch.cat(repeated) if repeated else found
        pieces = zip(torch.split(values, self.sizes), weights.unbind(), each, strict=True)
        return torch.cat([F.linear(piece, weight, bias) for piece, weight, bias in pieces])


def stack(groups: Sequence[Iterable[Tensor]], shape: Sequence[int], padded: Sequence[int]) -> Tensor:
    """Stack the weights of all groups and layers in the format of products, padded with zeros.

    Done once per pass: autocast would cast every weight, and its gradient, with a separate kernel.

    Args:
        groups: Each group's weights, one for each layer, all of one shape.
        shape: The shape that a weight is viewed as.
        padded: The shape that it is padded to.

    Returns:
        (layers, groups, *padded).
    """
    weights = [weight for layer in zip(*groups, strict=True) for weight in layer]
    device = weights[0].device.type
    half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weights[0].dtype
    stacked = torch.stack(weights).view(-1, len(groups), *shape).to(half)
    fill = [end for old, new in zip(reversed(shape), reversed(padded), strict=True) for end in (0, new - old)]
    return F.pad(stacked, fill) if any(fill) else stacked


def for_layers(stacked: Tensor, layers: int) -> Sequence[Tensor]:
    """Return one entry per layer: each layer's own, or the same for all; gradients are then added up in float32."""
    return stacked.expand(layers, *stacked.shape[1:]).unbind()


def _has_kernel(values: Tensor, weights: Tensor) -> bool:
    return (
        values.is_cuda
        and values.dtype == weights.dtype == torch.bfloat16
        and values.stride(1) == 1
        and all(size % STEP == 0 for size in (*weights.shape[1:], values.stride(0), values.storage_offset()))
        and _capability(values.device) in GROUPED
    )


@lru_cache
def _capability(device: torch.device) -> int:
    return torch.cuda.get_device_capability(device)[0]
