"""norm(residual + dropout(update)): the kernel compared with the composition, and the laws of its dropout.

With a CUDA device the kernel is compiled; without one Triton interprets it on the CPU.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.model.dropout import NO_DROPOUT, Dropout, Seed, Seeds
from palbert.model.residual import add_and_norm
from palbert.model.split import GradientSplitter, begin_pass
from palbert.model.task_gradients import TaskGradients

pytest.importorskip("triton", reason="needs Triton")

from palbert.model.kernels import residual as kernel

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if GPU else torch.device("cpu")
HALF = [torch.float16, torch.bfloat16] if GPU else [torch.float16]
SHAPES = [(37, 128), (8, 384), (5, 312), (1, 768), (3, 1024), (2100 if GPU else 9, 20)]


class Case:
    """Random inputs, a norm with random parameters, and a gradient from above."""

    def __init__(self, shape: tuple[int, int], residual: torch.dtype, update: torch.dtype) -> None:
        self.residual = (torch.randn(shape, device=DEVICE) + 0.5).to(residual).requires_grad_()
        self.update = torch.randn(shape, device=DEVICE).to(update).requires_grad_()
        self.weight = torch.randn(shape[1], device=DEVICE).requires_grad_()
        self.bias = torch.randn(shape[1], device=DEVICE).requires_grad_()
        self.upstream = torch.randn(shape, device=DEVICE).to(update)

    @property
    def leaves(self) -> list[Tensor]:
        return [self.residual, self.update, self.weight, self.bias]

    def fused(self, probability: float = 0.0, seed: Seed | None = None) -> Tensor:
        return kernel.add_and_norm(*self.leaves, epsilon=1e-5, probability=probability, seed=seed)

    def composed(self, noise: Tensor | float = 1.0) -> Tensor:
        total = self.residual.float() + self.update.float() * noise
        return F.layer_norm(total, total.shape[1:], self.weight, self.bias, 1e-5)

    def gradients(self, output: Tensor) -> list[Tensor]:
        return [each.float() for each in torch.autograd.grad(output, self.leaves, self.upstream.to(output.dtype))]


def seed_of(number: int) -> Seed:
    return Seed(torch.tensor([7, number], device=DEVICE), 1)


def noise_of(shape: tuple[int, int], probability: float, seed: Seed) -> Tensor:
    """Return the factor of each value in the kernel: its gradient divided by that of the norm."""
    case = Case(shape, torch.float32, torch.float32)
    to_residual, to_update, *_ = case.gradients(case.fused(probability, seed))
    return (to_update / to_residual).detach()


@pytest.fixture(autouse=True)
def seed(interpreter: None) -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_kernel_equals_the_composition(shape: tuple[int, int]) -> None:
    case = Case(shape, torch.float32, torch.float32)
    found, expected = case.fused(), case.composed()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(case.gradients(found), case.gradients(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("residual", [torch.float32, *HALF], ids=str)
@pytest.mark.parametrize("update", HALF, ids=str)
def test_the_kernel_equals_the_composition_within_half_precision(residual: torch.dtype, update: torch.dtype) -> None:
    case = Case((70, 768), residual, update)
    found, expected = case.fused(0.1, seed_of(3)), case.composed(noise_of((70, 768), 0.1, seed_of(3)))
    assert found.dtype == update
    torch.testing.assert_close(found.float(), expected, rtol=2e-2, atol=3e-2)
    for ours, theirs in zip(case.gradients(found), case.gradients(expected), strict=True):
        assert (ours - theirs).norm() <= 1e-2 * theirs.norm()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_with_dropout_the_kernel_equals_the_composition_of_the_same_noise(shape: tuple[int, int]) -> None:
    case, noise = Case(shape, torch.float32, torch.float32), noise_of(shape, 0.3, seed_of(3))
    found, expected = case.fused(0.3, seed_of(3)), case.composed(noise)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(case.gradients(found), case.gradients(expected), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_the_kernel_drops_the_given_share_and_scales_the_rest(probability: float) -> None:
    noise = noise_of((64, 312), probability, seed_of(3))
    kept = noise != 0
    torch.testing.assert_close(noise[kept], torch.full_like(noise[kept], 1 / (1 - probability)))
    share = 1 - kept.double().mean().item()
    assert share == pytest.approx(probability, abs=5 * (probability * (1 - probability) / noise.numel()) ** 0.5)


def test_the_kernel_draws_values_independently() -> None:
    kept = (noise_of((256, 128), 0.5, seed_of(3)) != 0).double() - 0.5
    neighbours = [kept.roll(steps, dims=dims) for steps in (1, 2, 3, 4) for dims in (0, 1)]
    for other in neighbours:
        assert abs((kept * other).mean().item() * 4) < 5 / kept.numel() ** 0.5


def test_the_noise_depends_on_the_seed() -> None:
    first, again, other = (noise_of((16, 128), 0.5, seed_of(number)) for number in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_noise_does_not_depend_on_how_many_rows_follow() -> None:
    assert torch.equal(noise_of((16, 128), 0.5, seed_of(3))[:7], noise_of((7, 128), 0.5, seed_of(3)))


@pytest.mark.parametrize("tasks", ["aba", "abc", "abb"])
def test_the_kernel_splits_the_gradients_of_the_norm_by_task(tasks: str) -> None:
    case, seed = Case((37, 128), torch.float32, torch.float32), seed_of(3)
    tokens = {"a": slice(0, 9), "b": slice(9, 30), "c": slice(30, 37)}
    parts = {
        name: Part(tasks[number], slice(number, number + 1), span) for number, (name, span) in enumerate(tokens.items())
    }
    starts = torch.tensor([0, 9, 30, 37], dtype=torch.int32, device=DEVICE)
    ids = torch.zeros(37, dtype=torch.int64, device=DEVICE)
    batch = PackedBatch(ids, ids, ids, starts, max_length=21, parts=parts)
    split = GradientSplitter(TaskGradients([case.weight, case.bias], most=3))
    with split.splitting(), begin_pass(batch):
        output = case.fused(0.3, seed)
    with split.collecting():
        output.backward(case.upstream)
    assert case.weight.grad is None and case.bias.grad is None
    whole = case.gradients(case.fused(0.3, seed))
    torch.testing.assert_close([case.residual.grad, case.update.grad], whole[:2])
    for row, task in enumerate(sorted(set(tasks))):
        chosen = torch.zeros_like(case.upstream)
        for own, span in zip(tasks, tokens.values(), strict=True):
            if own == task:
                chosen[span] = case.upstream[span]
        expected = torch.autograd.grad(case.fused(0.3, seed), case.leaves, chosen)[2:]
        torch.testing.assert_close([split.gradients.view(place, row) for place in (0, 1)], list(expected))


def test_repeating_a_gradient_gives_identical_bits() -> None:
    case = Case((67, 128), torch.float32, torch.float32)
    output = case.fused(0.3, seed_of(3))
    runs = [torch.autograd.grad(output, case.leaves, case.upstream, retain_graph=True) for _ in range(2)]
    for first, second in zip(*runs, strict=True):
        assert torch.equal(first, second)


def test_inputs_may_be_views_and_without_gradients_nothing_is_stored() -> None:
    case = Case((12, 64), torch.float32, torch.float32)
    with torch.no_grad():
        expected = case.composed()
        case.update = case.update.t().contiguous().t()
        torch.testing.assert_close(case.fused(), expected, rtol=1e-5, atol=1e-5)


def test_seeds_are_drawn_in_blocks_and_never_repeat() -> None:
    seeds = Seeds()
    given = [seeds.next(DEVICE) for _ in range(Seeds.block + 3)]
    assert len({int(numbers[place]) for numbers, place in given}) == len(given)
    assert len({id(numbers) for numbers, _ in given}) == 2


@pytest.mark.parametrize("dropout", [NO_DROPOUT, Dropout(0.5).eval()], ids=["none", "evaluating"])
def test_no_random_number_is_drawn_without_dropout(dropout: Dropout) -> None:
    seeds, norm = Seeds(), nn.LayerNorm(24).to(DEVICE)
    residual, update = torch.randn(2, 5, 24, device=DEVICE)
    found = add_and_norm(residual, update, norm, dropout, seeds)
    torch.testing.assert_close(found, norm(residual + update))
    assert seeds.used == len(seeds.numbers) == 0


@pytest.mark.skipif(not GPU, reason="needs a CUDA device")
def test_a_replayed_graph_draws_new_noise() -> None:
    norm, dropout = nn.LayerNorm(64).to(DEVICE), Dropout(0.5)
    residual, update = torch.randn(2, 30, 64, device=DEVICE)
    add_and_norm(residual, update, norm, dropout, Seeds())  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = add_and_norm(residual, update, norm, dropout, Seeds())
    draws = []
    for _ in range(2):
        graph.replay()
        draws.append(output.clone())
    assert not torch.equal(*draws)


@pytest.mark.skipif(not GPU, reason="needs a CUDA device")
def test_under_autocast_the_hidden_states_stay_in_half_precision() -> None:
    norm, linear = nn.LayerNorm(64).to(DEVICE), nn.Linear(64, 64).to(DEVICE)
    residual = torch.randn(30, 64, device=DEVICE)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert add_and_norm(residual, linear(residual), norm, Dropout(0.1), Seeds()).dtype == torch.bfloat16
