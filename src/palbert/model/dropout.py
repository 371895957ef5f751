"""Dropout that is fast on the CPU too, and the seeds of kernels that include dropout."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Set a share of the values to zero, in training."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    @property
    def rate(self) -> float:
        """The share that is dropped: 0 outside training."""
        return self.probability if self.training else 0.0

    def forward(self, values: Tensor) -> Tensor:
        """Drop values, in training."""
        return dropout(values, self.rate) if self.rate > 0 else values


NO_DROPOUT = Dropout(0.0)
"""Drops nothing."""


class Seed(NamedTuple):
    """The number that seeds the noise of one kernel."""

    numbers: Tensor
    """Random numbers on the kernel's device, int64."""
    offset: int
    """Index of the seed among them."""


class Seeds:
    """Seeds for the kernels of one pass, drawn on the device, many at a time.

    A CUDA graph repeats its kernels with the same Python numbers, but draws new random numbers on the device, so
    kernels read their seed there.
    """

    block = 128
    """Seeds per draw."""

    def __init__(self) -> None:
        self.numbers = torch.empty(0, dtype=torch.int64)
        self.used = 0

    def state(self) -> tuple[Tensor, int]:
        """Return where the next seed is taken from, for `restore`."""
        return self.numbers, self.used

    def restore(self, state: tuple[Tensor, int]) -> None:
        """Go back to a state, so that the same seeds follow again."""
        self.numbers, self.used = state

    def next(self, device: torch.device) -> Seed:
        """Return a seed that no other kernel of this pass has."""
        if self.used == len(self.numbers) or self.numbers.device != device:
            self.numbers, self.used = torch.randint(2**62, (self.block,), device=device), 0
        self.used += 1
        return Seed(self.numbers, self.used - 1)


def dropout(values: Tensor, probability: float) -> Tensor:
    """Set a share of the values to zero and scale the others up, so that the mean is unchanged."""
    if values.device.type == "cpu" and probability > 0:
        return values * dropout_noise(values, probability)
    return F.dropout(values, probability)


def dropout_noise(like: Tensor, probability: float) -> Tensor:
    """Draw zeros and 1 / (1 - probability), in the shape of a tensor.

    On the CPU torch draws a 64-bit number for each value, one after the other; a transformer then spends more time on
    dropout than on attention. Here one such number is used for four values, 16 bits each, so the probability is
    rounded to a multiple of 1/65536, and values are scaled for the rounded probability.
    """
    noise = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    if like.device.type != "cpu":
        return noise.bernoulli_(1 - probability).div_(1 - probability)
    dropped = round(probability * 2**16)
    count = noise.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    torch.ge(bits[:count].view(noise.shape), dropped - 2**15, out=noise)
    return noise.mul_(2**16 / (2**16 - dropped))
