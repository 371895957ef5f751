"""LayerNorm whose gradient can be split by task."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from palbert.model.split import shares


def layer_norm(values: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Return the norm of (tokens, width)."""
    present, weight = shares(), norm.weight
    output: Tensor
    if present is None:
        output = norm(values)
    else:
        output = _Norm.apply(values.to(weight.dtype), weight, norm.bias, norm.eps, present)  # type: ignore[no-untyped-call]
    return output


class _Norm(torch.autograd.Function):
    """torch's norm; of its gradient, what weight and bias get goes to each task's row."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor, epsilon: float, shares: Any) -> Tensor:
        output, mean, inverse = torch.native_layer_norm(values, weight.shape, weight, bias, epsilon)
        ctx.save_for_backward(values, mean, inverse)
        ctx.parameters, ctx.shares = (weight, bias), shares
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, mean, inverse = ctx.saved_tensors
        weight, bias = ctx.parameters
        to_values = None
        if ctx.needs_input_grad[0]:
            to_values, _, _ = torch.ops.aten.native_layer_norm_backward(
                gradient, values, weight.shape, mean, inverse, weight, bias, [True, False, False]
            )
        if ctx.needs_input_grad[1] and ctx.shares.wanted:
            ctx.shares.add_sums(weight, gradient * ((values - mean) * inverse))
        if ctx.needs_input_grad[2] and ctx.shares.wanted:
            ctx.shares.add_sums(bias, gradient)
        return to_values, None, None, None, None
