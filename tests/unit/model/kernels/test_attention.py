"""The attention kernel compared with padded attention, and the laws of its dropout.

With a CUDA device the kernel is compiled; without one Triton interprets it on the CPU.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from palbert.model.attention import Sequences, attend
from palbert.model.attention.padded import attend_padded
from palbert.model.dropout import Seed

pytest.importorskip("triton", reason="needs Triton")

from palbert.model.kernels import attention as kernel

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if GPU else torch.device("cpu")
# A GPU has the kernel in half precision only: compiled for float32 it would take minutes.
FORMAT, TOLERANCE = (torch.bfloat16, 2e-2) if GPU else (torch.float32, 1e-5)
LENGTHS = {
    "mixed": [5, 3, 17, 1, 32],
    "one token": [1],
    "unused slots": [4, 12, 7, 0, 0],
    "an empty one inside": [40, 0, 7],
    "one block": [64, 63],
    "several blocks": [130, 2, 0, 65],
    "several small blocks": [70, 2, 0, 33, 40],
}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a few sequences like many: into small blocks if they are short."""
    monkeypatch.setattr(kernel, "FEW", 0)


def sequences_of(lengths: list[int], *, bias: Tensor | None = None, spare: int = 0) -> Sequences:
    starts = torch.tensor([0, *lengths]).cumsum(0).to(DEVICE, torch.int32)
    return Sequences(starts=starts, tokens=sum(lengths), max_length=max(lengths) + spare, bias=bias)


def bias_of(lengths: list[int], *, heads: int = 2, spare: int = 0) -> Tensor:
    return torch.randn(heads, 2 * (max(lengths) + spare) - 1, device=DEVICE).requires_grad_()


def random_input(sequences: Sequences, *, width: int, dtype: torch.dtype = FORMAT) -> Tensor:
    return torch.randn(sequences.tokens, 3, 2, width, device=DEVICE).to(dtype).requires_grad_()


def padded(inputs: Tensor, sequences: Sequences) -> Tensor:
    return attend_padded(inputs.float(), sequences, 0.0, inputs.shape[-1] ** -0.5)


def kernel_of(inputs: Tensor, sequences: Sequences, probability: float = 0.0, seed: Seed | None = None) -> Tensor:
    starts, longest, bias = sequences.starts, sequences.max_length, sequences.bias
    return kernel.attend(inputs, starts, longest, bias=bias, probability=probability, seed=seed)


def seed_of(number: int) -> Seed:
    return Seed(torch.tensor([7, number], device=DEVICE), 1)


def noise_of(lengths: list[int], probability: float, seed: Seed) -> list[Tensor]:
    """Return the dropout factors of each sequence's weights, (heads, length, length), by one-hot values."""
    sequences = sequences_of(lengths)
    inputs = torch.zeros(sequences.tokens, 3, 2, 128, device=DEVICE, dtype=FORMAT)
    for begin, length in zip(sequences.starts.tolist(), lengths, strict=False):
        inputs[begin : begin + length, 2] = torch.eye(length, 128, device=DEVICE, dtype=FORMAT)[:, None]
    mixed = kernel_of(inputs, sequences, probability, seed).float().split(lengths)
    return [part[..., :length].transpose(0, 1) * length for part, length in zip(mixed, lengths, strict=True)]


def composed(inputs: Tensor, bias: Tensor, lengths: list[int], noise: list[Tensor]) -> Tensor:
    """Attend one sequence at a time, with the noise given."""
    mixed, middle = [], bias.shape[1] // 2
    for part, length, factor in zip(inputs.split(lengths), lengths, noise, strict=True):
        query, key, value = part.permute(1, 2, 0, 3)  # each (heads, length, width)
        place = torch.arange(length, device=DEVICE)
        scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
        scores = scores + bias[:, place[None, :] - place[:, None] + middle]
        mixed.append((scores.softmax(-1) * factor @ value).transpose(0, 1))
    return torch.cat(mixed)


def check(found: Tensor, expected: Tensor, sources: list[Tensor], *, tolerance: float) -> None:
    upstream = torch.randn_like(expected)
    ours = [found, *torch.autograd.grad(found, sources, upstream.to(found.dtype))]
    theirs = [expected, *torch.autograd.grad(expected, sources, upstream)]
    for one, other in zip(ours, theirs, strict=True):
        difference = (one.float() - other.float()).norm()
        assert difference <= tolerance * max(1.0, other.float().norm().item())


@pytest.fixture(autouse=True)
def seed(interpreter: None) -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_the_kernel_equals_padded_attention(lengths: list[int]) -> None:
    bias = bias_of(lengths)
    sequences = sequences_of(lengths, bias=bias)
    inputs = random_input(sequences, width=17)
    found, expected = kernel_of(inputs, sequences), padded(inputs, sequences)
    check(found, expected, [inputs, bias], tolerance=TOLERANCE)


@pytest.mark.parametrize("width", [1, 16, 64, 100])
@pytest.mark.parametrize("lengths", [[5, 32], [66]], ids=str)
def test_any_width_works_with_and_without_a_bias(lengths: list[int], width: int) -> None:
    sequences = sequences_of(lengths)
    inputs = random_input(sequences, width=width)
    found, expected = kernel_of(inputs, sequences), padded(inputs, sequences)
    check(found, expected, [inputs], tolerance=TOLERANCE)


@pytest.mark.parametrize("spare", [1, 50])
def test_sequences_may_be_shorter_than_the_given_maximum(spare: int) -> None:
    lengths = [20, 9, 0]
    bias = bias_of(lengths, spare=spare)
    sequences = sequences_of(lengths, bias=bias, spare=spare)
    inputs = random_input(sequences, width=8)
    found, expected = kernel_of(inputs, sequences), padded(inputs, sequences)
    check(found, expected, [inputs, bias], tolerance=TOLERANCE)


@pytest.mark.parametrize("lengths", [[5, 3, 32], [60, 1], [70]], ids=str)
def test_the_output_has_the_number_format_of_the_input(lengths: list[int]) -> None:
    bias = bias_of(lengths)
    sequences = sequences_of(lengths, bias=bias)
    inputs = random_input(sequences, width=64, dtype=torch.float16)
    found = kernel_of(inputs, sequences)
    assert found.dtype == torch.float16
    check(found, padded(inputs, sequences), [inputs, bias], tolerance=1e-2)


@pytest.mark.parametrize("lengths", [[5, 0, 31], [40], [70, 1]], ids=str)
def test_with_dropout_the_kernel_equals_the_composition_of_the_same_noise(lengths: list[int]) -> None:
    bias = bias_of(lengths)
    sequences = sequences_of(lengths, bias=bias)
    inputs = random_input(sequences, width=12)
    noise = [(each != 0) / 0.7 for each in noise_of(lengths, 0.3, seed_of(3))]
    found, expected = kernel_of(inputs, sequences, 0.3, seed_of(3)), composed(inputs.float(), bias, lengths, noise)
    check(found, expected, [inputs, bias], tolerance=TOLERANCE)


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_the_kernel_drops_the_given_share_and_scales_the_rest(probability: float) -> None:
    noise = torch.cat([each.flatten() for each in noise_of([100, 30, 7], probability, seed_of(3))])
    kept = noise != 0
    torch.testing.assert_close(noise[kept], torch.full_like(noise[kept], 1 / (1 - probability)), rtol=TOLERANCE, atol=0)
    share = 1 - kept.double().mean().item()
    assert share == pytest.approx(probability, abs=5 * (probability * (1 - probability) / noise.numel()) ** 0.5)


def test_every_seed_sequence_and_head_has_its_own_noise() -> None:
    first, again, other = (noise_of([30, 30], 0.5, seed_of(number)) for number in (3, 3, 1000))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    drawn = [*first[0], *first[1], *other[0], *other[1]]
    for number, one in enumerate(drawn):
        for another in drawn[:number]:
            agreement = ((one != 0) == (another != 0)).double().mean().item()
            assert agreement == pytest.approx(0.5, abs=5 * 0.5 / one.numel() ** 0.5)


def test_repeating_a_gradient_gives_identical_bits() -> None:
    lengths = [70, 3]
    bias = bias_of(lengths)
    sequences = sequences_of(lengths, bias=bias)
    inputs = random_input(sequences, width=16)
    mixed = kernel_of(inputs, sequences, 0.3, seed_of(3))
    upstream = torch.randn_like(mixed)
    runs = [torch.autograd.grad(mixed, [inputs, bias], upstream, retain_graph=True) for _ in range(2)]
    for first, second in zip(*runs, strict=True):
        assert torch.equal(first, second)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # raised by NumPy in the interpreter
def test_nan_in_one_sequence_does_not_reach_the_others() -> None:
    sequences = sequences_of([5, 3, 4])
    inputs = random_input(sequences, width=8).detach()
    clean = kernel_of(inputs, sequences)
    inputs[5:8] = float("nan")
    broken = kernel_of(inputs, sequences)
    assert torch.equal(broken[:5], clean[:5])
    assert torch.equal(broken[8:], clean[8:])


@pytest.mark.skipif(not GPU, reason="needs a CUDA device")
def test_attention_uses_the_kernel_for_a_bias_in_half_precision() -> None:
    lengths = [5, 9, 30, 0]
    bias = bias_of(lengths)
    sequences = sequences_of(lengths, bias=bias)
    inputs = random_input(sequences, width=64).detach().bfloat16()
    assert torch.equal(attend(inputs, sequences), kernel_of(inputs, sequences))
    assert not torch.equal(attend(inputs, sequences, dropout=0.1), attend(inputs, sequences, dropout=0.1))
