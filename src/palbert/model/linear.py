"""Linear layers: fast products in half precision, weight gradients in float32 or split by task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from palbert.model.factors import product
from palbert.model.split import current_task_tokens


class Linear(nn.Linear):
    """torch's linear layer; under autocast on CUDA the same with fewer kernels.

    Autocast casts each weight and bias with a separate kernel, and their gradients back with two more. Here all weights
    of an encoder are cast at once (`half_copies`), and the product for a weight's gradient writes float32 directly,
    without rounding in between.
    """

    copies: tuple[Tensor, Tensor | None] | None = None
    """Weight and bias in half precision, inside `half_copies`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return x Wᵀ + b."""
        task_tokens = current_task_tokens()
        if self.copies is None and task_tokens is None:
            return super().forward(input)
        weight, bias = self.copies or (self.weight.detach(), None if self.bias is None else self.bias.detach())
        output: Tensor = _Product.apply(input.to(weight.dtype), self.weight, self.bias, weight, bias, task_tokens)  # type: ignore[no-untyped-call]
        return output


class InferenceLinear(nn.Module, ABC):
    """A linear layer in a layout for inference alone, which can add a residual without a kernel of its own."""

    @abstractmethod
    def forward(self, values: Tensor) -> Tensor:
        """Map (tokens, inputs) to (tokens, outputs)."""

    @abstractmethod
    def add_to(self, residual: Tensor, values: Tensor) -> Tensor:
        """Return the residual, (tokens, outputs), plus the outputs for the values, (tokens, inputs)."""


@contextmanager
def half_copies(encoder: nn.Module) -> Iterator[None]:
    """Cast the weights of all linear layers in a module at once, if autocast is on for CUDA."""
    linear = []
    if torch.is_autocast_enabled("cuda"):
        linear = [module for module in encoder.modules() if type(module) is Linear]
    if not linear or not linear[0].weight.is_cuda:
        yield
        return
    values = [value.detach() for layer in linear for value in (layer.weight, layer.bias) if value is not None]
    flat = values[0].new_empty(sum(value.numel() for value in values), dtype=torch.get_autocast_dtype("cuda"))
    parts = torch.split(flat, [value.numel() for value in values])
    copies = [part.view_as(value) for part, value in zip(parts, values, strict=True)]
    torch._foreach_copy_(copies, values)
    try:
        coming = iter(copies)
        for layer in linear:
            layer.copies = next(coming), None if layer.bias is None else next(coming)
        yield
    finally:
        for layer in linear:
            layer.copies = None


class _Product(torch.autograd.Function):
    """x Wᵀ + b with copies of W and b, possibly in half precision; the gradients of W and b are float32."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        used_weight: Tensor,
        used_bias: Tensor | None,
        task_tokens: Any,
    ) -> Tensor:
        ctx.save_for_backward(input, used_weight)
        ctx.parameters, ctx.task_tokens = (weight, bias), task_tokens
        return F.linear(input, used_weight, used_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input, weight = ctx.saved_tensors
        needs_input, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        if ctx.task_tokens is not None:
            if needs_weight and ctx.task_tokens.is_collecting:
                ctx.task_tokens.add_products(ctx.parameters[0], gradient, input)
            if needs_bias and ctx.task_tokens.is_collecting:
                ctx.task_tokens.add_sums(ctx.parameters[1], gradient)
            return gradient @ weight if needs_input else None, None, None, None, None, None
        to_weight = weight.new_empty(weight.shape, dtype=torch.float32) if needs_weight else None
        to_bias = weight.new_empty((1, len(weight)), dtype=torch.float32) if needs_bias else None
        with _in_parallel(gradient) as join:
            if to_weight is not None:
                product(gradient.t(), input, out=to_weight)
            if to_bias is not None:  # a product with ones takes half the time of a sum over rows
                product(_ones(gradient), gradient, out=to_bias)
        to_input = gradient @ weight if needs_input else None
        join()
        return to_input, to_weight, None if to_bias is None else to_bias[0], None, None, None


MANY = 2**16
"""Length of the cached row of ones."""
_kept_ones: dict[tuple[torch.device, torch.dtype], Tensor] = {}


def _ones(like: Tensor) -> Tensor:
    """Return a row of ones, one per row of a matrix; cached and never freed, since CUDA graphs read its address."""
    key, count = (like.device, like.dtype), len(like)
    if key not in _kept_ones and not torch.cuda.is_current_stream_capturing():  # memory of a graph is not kept
        _kept_ones[key] = like.new_ones(1, MANY)
    ones = _kept_ones.get(key)
    return like.new_ones(1, count) if ones is None or count > MANY else ones[:, :count]


FEW = 1024
"""With fewer rows than this, one product does not occupy the whole device."""


@contextmanager
def _in_parallel(like: Tensor) -> Iterator[Callable[[], None]]:
    """Run products in parallel to what follows the context; yield a function that waits for them.

    They get a stream of their own only in captured graphs with few rows; otherwise, switching costs more than it saves.
    """
    if len(like) >= FEW or not torch.cuda.is_current_stream_capturing():
        yield _already_joined
        return
    main, side = torch.cuda.current_stream(like.device), _side_stream(like.device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield lambda: main.wait_stream(side)


def _already_joined() -> None:
    """No-op: the products ran on the same stream."""


@lru_cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
