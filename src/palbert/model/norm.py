"""Norms whose gradients can be split by task."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from palbert.model.split import current_task_tokens


class LayerNorm(nn.LayerNorm):
    """torch's LayerNorm; in passes with split gradients, each task's gradient is added to its own row."""

    def forward(self, values: Tensor) -> Tensor:
        """Return the norm of (tokens, width)."""
        task_tokens = current_task_tokens()
        if task_tokens is None:
            return super().forward(values)
        output: Tensor = _Norm.apply(values.to(self.weight.dtype), self.weight, self.bias, self.eps, task_tokens)  # type: ignore[no-untyped-call]
        return output


NORMS: dict[str, type[LayerNorm]] = {"layer": LayerNorm}


class _Norm(torch.autograd.Function):
    """torch's norm; the gradients of weight and bias are added to the row of each task."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float, task_tokens: Any
    ) -> Tensor:
        output, mean, inverse = torch.native_layer_norm(values, weight.shape, weight, bias, epsilon)
        ctx.save_for_backward(values, mean, inverse)
        ctx.parameters, ctx.task_tokens = (weight, bias), task_tokens
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
        if ctx.needs_input_grad[1] and ctx.task_tokens.is_collecting:
            ctx.task_tokens.add_sums(weight, gradient * ((values - mean) * inverse))
        if ctx.needs_input_grad[2] and ctx.task_tokens.is_collecting:
            ctx.task_tokens.add_sums(bias, gradient)
        return to_values, None, None, None, None
