"""Linear layers: torch's numbers with and without a bias, and gradients that can be split by task."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from palbert.model import linear as module
from palbert.model.linear import Linear, half_copies

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
bias = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])


@bias
def test_gradients_can_be_split_by_task(bias: bool, assert_splits: Any) -> None:
    layer, values = Linear(6, 4, bias=bias), torch.randn(8, 6)
    assert_splits(layer, lambda tokens: layer(values[tokens]))


@pytest.fixture
def not_capturing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for a torch without CUDA, which cannot tell whether a graph is captured."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)


@bias
@pytest.mark.usefixtures("not_capturing")
def test_copies_give_the_output_and_gradients_of_the_layer(bias: bool) -> None:
    layer, values, upstream = Linear(6, 4, bias=bias), torch.randn(8, 6, requires_grad=True), torch.randn(8, 4)
    found = []
    for copied in (False, True):
        copies = layer.weight.detach().clone(), layer.bias.detach().clone() if bias else None
        layer.copies = copies if copied else None
        output = layer(values)
        found.append((output, *torch.autograd.grad(output, [values, *layer.parameters()], upstream)))
    torch.testing.assert_close(*found)


def test_copies_are_made_only_on_cuda() -> None:
    layer = Linear(3, 2)
    with half_copies(nn.Sequential(layer)), torch.autocast("cpu", torch.bfloat16):
        assert layer.copies is None


@pytest.mark.usefixtures("not_capturing")
def test_vectors_of_ones_are_cached_up_to_a_limit() -> None:
    few, many = module._ones(torch.empty(3, 2)), module._ones(torch.empty(module.MANY + 1, 1))
    assert few.tolist() == [[1.0, 1.0, 1.0]]
    assert few.data_ptr() == module._ones(torch.empty(5, 2)).data_ptr()
    assert many.shape == (1, module.MANY + 1) and bool((many == 1).all())


@cuda
@bias
def test_all_layers_have_copies_in_half_precision_during_a_pass(bias: bool) -> None:
    layers = nn.Sequential(Linear(6, 4, bias=bias), nn.Linear(4, 4), Linear(4, 3)).cuda()
    with torch.autocast("cuda", torch.bfloat16), half_copies(layers):
        first, _, last = layers
        assert isinstance(first, Linear) and isinstance(last, Linear)
        assert first.copies is not None and last.copies is not None
        assert torch.equal(first.copies[0], first.weight.bfloat16())
        assert (first.copies[1] is None) == (not bias)
        assert last.copies[1] is not None and torch.equal(last.copies[1], last.bias.bfloat16())
    assert first.copies is None


@cuda
@bias
def test_gradients_of_half_precision_products_are_float32(bias: bool) -> None:
    layer, values = Linear(64, 32, bias=bias).cuda(), torch.randn(100, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16), half_copies(nn.Sequential(layer)):
        output = layer(values)
    upstream = torch.randn_like(output)
    output.backward(upstream)
    expected = upstream.float().t() @ values.bfloat16().float()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(layer.weight.grad, expected, rtol=1e-3, atol=1e-2)
