"""norm(residual + dropout(update)): how both halves of a post-norm block end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palbert.model.dropout import Dropout, Seeds
from palbert.model.kernels import has_triton

FORMATS = (torch.bfloat16, torch.float16, torch.float32)
"""What the kernel reads and writes; it computes in float32."""
WIDTH_LIMIT = 2048
"""Columns that the kernel supports; one program holds four whole rows."""


def add_and_norm(residual: Tensor, update: Tensor, norm: nn.Module, dropout: Dropout, seeds: Seeds) -> Tensor:
    """Return norm(residual + dropout(update)).

    Two back ends with the same result: one kernel on CUDA if Triton is installed, and torch's operations otherwise. The
    kernel returns the update's format: under autocast, where torch's norm returns float32, hidden states then stay in
    half precision from layer to layer, and no linear layer has to cast them.

    Args:
        residual: (tokens, hidden).
        update: What is added, (tokens, hidden).
        norm: The norm of the sum; the kernel computes LayerNorms with a bias.
        dropout: Applied to the update.
        seeds: Where the kernel's dropout takes its random numbers from.

    Returns:
        (tokens, hidden).
    """
    if not isinstance(norm, nn.LayerNorm) or norm.bias is None or not _kernel_takes(residual, update):
        output: Tensor = norm(residual + dropout(update))
        return output
    # Imported here: it needs Triton, which comes with torch for CUDA only.
    from palbert.model.kernels import residual as kernel

    rate = dropout.rate
    seed = seeds.next(update.device) if rate > 0 else None
    return kernel.add_and_norm(residual, update, norm.weight, norm.bias, epsilon=norm.eps, probability=rate, seed=seed)


def _kernel_takes(residual: Tensor, update: Tensor) -> bool:
    return (
        update.is_cuda
        and residual.dtype in FORMATS
        and update.dtype in FORMATS
        and 0 < update.numel() < 2**31  # its offsets are 32-bit numbers
        and update.shape[1] <= WIDTH_LIMIT
        and has_triton()
    )
