"""Rotary positions: queries and keys are rotated by angles that grow with the position (RoPE, arXiv:2104.09864)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rotation(NamedTuple):
    """Cosines and sines of the angles of each token, (tokens, 1, 1, width / 2), in float32."""

    cosines: Tensor
    sines: Tensor

    @classmethod
    def of(cls, positions: Tensor, *, base: float, width: int) -> Rotation:
        """Compute the angles of some positions, position · base^(-2i / width), on the device of the positions."""
        exponents = torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) / width
        angles = positions[:, None].float() * (1.0 / base**exponents)
        return cls(angles.cos()[:, None, None], angles.sin()[:, None, None])

    def __call__(self, query_key_value: Tensor) -> Tensor:
        """Rotate queries and keys, (tokens, 3, heads, width); values stay as they are.

        Number i of a head is rotated together with number i + width / 2.
        """
        query_key, value = query_key_value[:, :2], query_key_value[:, 2:]
        first, second = query_key.chunk(2, dim=-1)
        rotated = torch.cat(
            [first * self.cosines - second * self.sines, second * self.cosines + first * self.sines], dim=-1
        )
        return torch.cat([rotated.to(value.dtype), value], dim=1)
