"""Back ends of attention: each sequence attends only to itself, with bias, window and dropout."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from palbert.model.attention import Sequences, attend, backends

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LENGTHS = {
    "mixed": [5, 3, 17, 1, 9, 9, 30],
    "one token": [1],
    "equal": [6, 6, 6],
    "unused slots": [4, 12, 7, 0, 0],
    "an empty one inside": [4, 0, 7],
    "long": [512, 2, 300, 511],
}


def sequences_of(lengths: list[int], *, bias: Tensor | None = None, window: int = 0, device: str = "cpu") -> Sequences:
    starts = torch.tensor([0, *lengths]).cumsum(0).to(device, torch.int32)
    return Sequences(starts=starts, tokens=sum(lengths), max_length=max(lengths), bias=bias).within(window)


def as_on_a_gpu(sequences: Sequences) -> Sequences:
    """Pad all sequences to the longest, as is done where only the device has the lengths."""
    copy = replace(sequences)
    starts, lengths = sequences.starts[:-1], sequences.starts.diff()
    vars(copy)["padding"] = copy._padding([(starts, lengths, copy.max_length, False)])
    return copy


def one_by_one(query_key_value: Tensor, sequences: Sequences) -> Tensor:
    """Attend with torch's own attention, one sequence at a time."""
    mixed = []
    for begin, end in pairwise(sequences.starts.tolist()):
        query, key, value = query_key_value[begin:end].permute(1, 2, 0, 3)  # each (heads, length, width)
        place = torch.arange(end - begin, device=query.device)
        is_open = (place[:, None] - place).abs() <= (sequences.window or len(place))
        mask = torch.zeros_like(is_open, dtype=query.dtype).masked_fill(~is_open, float("-inf"))
        if sequences.scores is not None:
            mask = mask + sequences.scores[:, : end - begin, : end - begin]
        if end > begin:
            mixed.append(F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(0, 1))
    return torch.cat(mixed)


def random_input(sequences: Sequences, *, heads: int = 2, width: int = 5) -> Tensor:
    return torch.randn(sequences.tokens, 3, heads, width, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("layout", ["grouped", "as on a GPU"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("window", [0, 1, 4])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_packed_attention_equals_attention_of_each_sequence_alone(
    lengths: list[int], window: int, biased: bool, layout: str
) -> None:
    bias = torch.randn(2, 2 * max(lengths) - 1, dtype=torch.float64, requires_grad=True) if biased else None
    sequences = sequences_of(lengths, bias=bias, window=window)
    sequences = sequences if layout == "grouped" else as_on_a_gpu(sequences)
    inputs = random_input(sequences)
    sources = [inputs] if bias is None else [inputs, bias]
    found, expected = attend(inputs, sequences), one_by_one(inputs, sequences)
    upstream = torch.randn_like(expected)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, sources, upstream), torch.autograd.grad(expected, sources, upstream)
    )


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("probability", [0.0, 0.4])
def test_the_gradient_by_hand_equals_that_of_autograd(probability: float, window: int) -> None:
    bias = torch.randn(2, 9, dtype=torch.float64, requires_grad=True)
    sequences = sequences_of([5, 2, 1, 0], window=window)
    inputs = random_input(sequences, width=3)

    def run(values: Tensor, scores: Tensor) -> Tensor:
        torch.manual_seed(3)  # the same noise at every call
        return attend(values, replace(sequences, bias=scores), dropout=probability)

    assert torch.autograd.gradcheck(run, (inputs, bias))


def test_zeros_that_fill_up_heads_change_nothing_at_the_scale_of_the_true_width() -> None:
    sequences = sequences_of([5, 3, 9])
    inputs = random_input(sequences)
    expected = attend(inputs, sequences)
    mixed = attend(F.pad(inputs, (0, 3)), sequences, scale=5**-0.5)
    torch.testing.assert_close(mixed, F.pad(expected, (0, 3)))
    gradient = torch.randn_like(expected)
    found, wanted = (torch.autograd.grad(each, inputs, gradient) for each in (mixed[..., :5], expected))
    torch.testing.assert_close(found, wanted)


def test_a_retained_graph_gives_the_same_gradient_twice() -> None:
    sequences = sequences_of([5, 3])
    inputs = random_input(sequences)
    total = attend(inputs, sequences, dropout=0.2).square().sum()
    first = torch.autograd.grad(total, inputs, retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(total, inputs)[0])


def test_nan_in_one_sequence_does_not_reach_the_others() -> None:
    sequences = sequences_of([5, 3, 4])
    inputs = random_input(sequences).detach()
    clean = attend(inputs, sequences)
    inputs[5:8] = float("nan")
    assert torch.equal(attend(inputs, sequences)[:5], clean[:5])
    assert torch.equal(attend(inputs, sequences)[8:], clean[8:])


def test_layers_with_different_heads_can_share_the_sequences() -> None:
    sequences = sequences_of([5, 3, 9])
    for heads in (1, 4, 1):
        inputs = random_input(sequences, heads=heads)
        torch.testing.assert_close(attend(inputs, sequences), one_by_one(inputs, sequences))


def mean_over_draws(inputs: Tensor, sequences: Sequences, *, draws: int) -> Tensor:
    return torch.stack([attend(inputs, sequences, dropout=0.1).double() for _ in range(draws)]).mean(0)


def test_attention_dropout_changes_each_draw_but_not_the_mean() -> None:
    sequences = sequences_of([5, 9, 3])
    inputs = random_input(sequences).detach()
    assert not torch.equal(attend(inputs, sequences, dropout=0.1), attend(inputs, sequences, dropout=0.1))
    mean = mean_over_draws(inputs, sequences, draws=2000)
    torch.testing.assert_close(mean, attend(inputs, sequences), atol=0.05, rtol=0)


@cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [17, 32, 64])
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_flash_equals_padded_within_half_precision(
    lengths: list[int], window: int, width: int, dtype: torch.dtype
) -> None:
    sequences = sequences_of(lengths, window=window, device="cuda")
    half = torch.randn(sequences.tokens, 3, 4, width, device="cuda").to(dtype).requires_grad_()
    full = half.detach().float().requires_grad_()
    upstream = torch.randn(sequences.tokens, 4, width, device="cuda").to(dtype)
    assert backends._flash_takes(half)
    found, expected = attend(half, sequences), attend(full, sequences)
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=2e-2)
    (found_gradient,) = torch.autograd.grad(found, half, upstream)
    (gradient,) = torch.autograd.grad(expected, full, upstream.float())
    torch.testing.assert_close(found_gradient.float(), gradient, atol=5e-2, rtol=2e-2)


@cuda
@pytest.mark.parametrize("width", [17, 32])
def test_flash_dropout_changes_each_draw_but_not_the_mean(width: int) -> None:
    sequences = sequences_of([5, 9, 30], device="cuda")
    inputs = torch.randn(sequences.tokens, 3, 4, width, device="cuda").bfloat16()
    assert not torch.equal(attend(inputs, sequences, dropout=0.1), attend(inputs, sequences, dropout=0.1))
    mean = mean_over_draws(inputs, sequences, draws=2000)
    torch.testing.assert_close(mean, attend(inputs.float(), sequences).double(), atol=0.05, rtol=0)


@cuda
def test_flash_dropout_has_the_gradient_of_its_own_draw() -> None:
    sequences = sequences_of([5, 9, 30], device="cuda")
    inputs = torch.randn(sequences.tokens, 3, 4, 32, device="cuda").bfloat16()
    # The output is linear in the values: the gradient there, along the values, is the output itself.
    values = inputs[:, 2].clone().requires_grad_()
    mixed = attend(torch.stack([inputs[:, 0], inputs[:, 1], values], dim=1), sequences, dropout=0.3)
    upstream = torch.randn_like(mixed)
    (gradient,) = torch.autograd.grad(mixed, values, upstream)
    along, output = (gradient.float() * values.float()).sum(), (mixed.float() * upstream.float()).sum()
    torch.testing.assert_close(along, output, atol=1.0, rtol=2e-2)


@cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # a prototype, says torch
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("window", [0, 4])
def test_attention_never_waits_for_the_gpu(dtype: torch.dtype, biased: bool, window: int) -> None:
    bias = torch.randn(4, 59, device="cuda", dtype=dtype, requires_grad=True) if biased else None
    sequences = sequences_of([5, 9, 30, 0], bias=bias, window=window, device="cuda")
    inputs = torch.randn(sequences.tokens, 3, 4, 17, device="cuda", dtype=dtype, requires_grad=True)
    attend(inputs, replace(sequences)).sum().backward()  # first calls load kernels
    try:
        torch.cuda.set_sync_debug_mode("error")
        attend(inputs, sequences, dropout=0.1).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert inputs.grad is not None  # each wait would have raised
