"""Back ends of attention: a Triton kernel, flash attention, padding, and one sequence alone, with one result."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from palbert.model.attention.alone import attend_alone
from palbert.model.attention.padded import attend_padded
from palbert.model.attention.rectangle import Rectangle, attend_rectangle
from palbert.model.attention.sequences import Sequences
from palbert.model.kernels import has_triton

FLASH_WIDTH_STEP = 8
"""Flash attention supports head widths that are multiples of this."""
FLASH_WIDTH_LIMIT = 256
"""Flash attention supports head widths up to this."""
KERNEL_WIDTH_LIMIT = 128
"""The Triton kernel supports head widths up to this: a program holds several blocks of tokens."""


def attend(
    query_key_value: Tensor, sequences: Sequences, *, dropout: float = 0.0, scale: float | None = None
) -> Tensor:
    """Let every token attend to the tokens of its own sequence.

    Back ends with one result: on CUDA in half precision a Triton kernel for short sequences or with a bias,
    and torch's variable-length flash attention for long ones or with a window; everywhere else padding for the
    attention alone, which a single sequence outside training does without. A `Rectangle`, whose texts are padded
    throughout, has plain products that graphs can record.

    Args:
        query_key_value: (tokens, 3, heads, width).
        sequences: Where the sequences lie.
        dropout: Share of the attention probabilities set to zero; 0 outside training.
        scale: Factor on the scores; width ** -0.5 unless given. Heads padded with zeros need that of their own width.

    Returns:
        (tokens, heads, width).
    """
    if sequences.by_part:
        pieces = torch.split(query_key_value, [part.tokens for part in sequences.by_part])
        found = zip(pieces, sequences.by_part, strict=True)
        return torch.cat([attend(piece, part, dropout=dropout, scale=scale) for piece, part in found])
    scale = query_key_value.shape[-1] ** -0.5 if scale is None else scale
    if isinstance(sequences, Rectangle):
        return attend_rectangle(query_key_value, sequences, scale)
    prefers_kernel = not sequences.window and (sequences.bias is not None or sequences.are_short)
    if prefers_kernel and _kernel_takes(query_key_value):
        return _attend_kernel(query_key_value, sequences, dropout, scale)
    if sequences.bias is None and _flash_takes(query_key_value):
        return _attend_flash(query_key_value, sequences, dropout, scale)
    if sequences.is_alone and not query_key_value.is_cuda and not torch.is_grad_enabled() and dropout == 0:
        return attend_alone(query_key_value, sequences.scores, scale)
    return attend_padded(query_key_value, sequences, dropout, scale)


def _flash_takes(query_key_value: Tensor) -> bool:
    return _is_half_on_gpu(query_key_value) and query_key_value.shape[-1] <= FLASH_WIDTH_LIMIT


def _kernel_takes(query_key_value: Tensor) -> bool:
    return (
        _is_half_on_gpu(query_key_value)
        and query_key_value.shape[-1] <= KERNEL_WIDTH_LIMIT
        and 0 < query_key_value.numel() < 2**31  # its offsets are 32-bit numbers
        and has_triton()
    )


def _is_half_on_gpu(values: Tensor) -> bool:
    return values.is_cuda and values.dtype in (torch.bfloat16, torch.float16) and _has_flash(values.device)


@lru_cache
def _has_flash(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _attend_flash(query_key_value: Tensor, sequences: Sequences, dropout: float, scale: float) -> Tensor:
    width = query_key_value.shape[-1]
    fill = -width % FLASH_WIDTH_STEP
    query, key, value = (F.pad(query_key_value, (0, fill)) if fill else query_key_value).unbind(1)
    starts, longest, window = sequences.starts, sequences.max_length, sequences.window
    if dropout == 0 and not window:
        # Imported here: it loads torch's compiler, which takes as long as the rest of torch.
        from torch.nn.attention.varlen import varlen_attn

        mixed: Tensor = varlen_attn(query, key, value, starts, starts, longest, longest, scale=scale)  # type: ignore[assignment]
    else:
        # The private op under varlen_attn, which fixes dropout at 0 and has windows in some versions only.
        limits = {"window_size_left": window, "window_size_right": window} if window else {}
        mixed = torch.ops.aten._flash_attention_forward(
            query, key, value, starts, starts, longest, longest, dropout, False, False, scale=scale, **limits
        )[0]
    return mixed[..., :width]


def _attend_kernel(query_key_value: Tensor, sequences: Sequences, dropout: float, scale: float) -> Tensor:
    # Imported here: it needs Triton, which comes with torch for CUDA only.
    from palbert.model.kernels import attention as kernel

    seed = sequences.seeds.next(query_key_value.device) if dropout > 0 else None
    starts, longest, bias = sequences.starts, sequences.max_length, sequences.bias
    return kernel.attend(query_key_value, starts, longest, bias=bias, probability=dropout, seed=seed, scale=scale)
