"""Linear layers: quick products in half precision, gradients of the weights in float32, or split by task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from palbert.model.split import product, shares


class Linear(nn.Linear):
    """torch's linear layer; under autocast on CUDA the same with fewer kernels.

    Autocast casts each weight and bias by a kernel of its own, and casts their gradients back by two more. Here all
    weights of an encoder are cast at once (`half_copies`), and the product that gives a weight's gradient writes
    float32 itself, without rounding in between.
    """

    copies: tuple[Tensor, Tensor] | None = None
    """Weight and bias in half precision, for the time of `half_copies`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        present = shares()
        if self.copies is None and present is None:
            return super().forward(input)
        weight, bias = self.copies or (self.weight.detach(), self.bias.detach())
        output: Tensor = _Product.apply(input.to(weight.dtype), self.weight, self.bias, weight, bias, present)  # type: ignore[no-untyped-call]
        return output


@contextmanager
def half_copies(encoder: nn.Module) -> Iterator[None]:
    """Give all linear layers inside a module copies in autocast's format, where autocast is on for CUDA."""
    linear = [module for module in encoder.modules() if type(module) is Linear]
    if not linear or not linear[0].weight.is_cuda or not torch.is_autocast_enabled("cuda"):
        yield
        return
    values = [value.detach() for layer in linear for value in (layer.weight, layer.bias)]
    flat = values[0].new_empty(sum(value.numel() for value in values), dtype=torch.get_autocast_dtype("cuda"))
    parts = torch.split(flat, [value.numel() for value in values])
    copies = [part.view_as(value) for part, value in zip(parts, values, strict=True)]
    torch._foreach_copy_(copies, values)
    try:
        for number, layer in enumerate(linear):
            layer.copies = copies[2 * number], copies[2 * number + 1]
        yield
    finally:
        for layer in linear:
            layer.copies = None


class _Product(torch.autograd.Function):
    """x Wᵀ + b by copies of W and b, maybe in half precision; the gradients go to W and b themselves, in float32."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor, bias: Tensor, used_weight: Tensor, used_bias: Tensor, shares: Any
    ) -> Tensor:
        ctx.save_for_backward(input, used_weight)
        ctx.parameters, ctx.shares = (weight, bias), shares
        return F.linear(input, used_weight, used_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input, weight = ctx.saved_tensors
        needs_input, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        to_input = gradient @ weight if needs_input else None
        if ctx.shares is not None:
            if needs_weight and ctx.shares.wanted:
                ctx.shares.add_products(ctx.parameters[0], gradient, input)
            if needs_bias and ctx.shares.wanted:
                ctx.shares.add_sums(ctx.parameters[1], gradient)
            return to_input, None, None, None, None, None
        to_weight = product(gradient.t(), input) if needs_weight else None
        # For the bias, a product with ones takes half the time of a sum over rows.
        to_bias = product(gradient.new_ones(1, len(gradient)), gradient)[0] if needs_bias else None
        return to_input, to_weight, to_bias, None, None, None
