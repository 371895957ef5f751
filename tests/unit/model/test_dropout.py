"""Dropout: its share and its mean, independence, seeds, and repeatable seeds of kernels."""

from __future__ import annotations

import pytest
import torch

from palbert.model.dropout import NO_DROPOUT, Dropout, Seeds, dropout

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_keeps_the_mean_and_drops_the_given_share(dtype: torch.dtype) -> None:
    dropped = dropout(torch.ones(1001, 999, dtype=dtype), 0.1)
    assert dropped.dtype == dtype
    kept = dropped != 0
    share = 1 - kept.double().mean().item()
    assert share == pytest.approx(0.1, abs=5 * (0.1 * 0.9 / dropped.numel()) ** 0.5)
    torch.testing.assert_close(dropped[kept].unique(), torch.tensor([1 / 0.9], dtype=dtype), atol=1e-4, rtol=1e-2)


def test_dropout_draws_values_independently() -> None:
    kept = (dropout(torch.ones(4096, 64), 0.5) != 0).double() - 0.5
    for other in (kept.roll(1, dims=1), kept.roll(4, dims=1), kept.roll(1, dims=0)):
        assert abs((kept * other).mean().item() * 4) < 5 / kept.numel() ** 0.5


def test_a_dropout_of_0_changes_nothing() -> None:
    values = torch.randn(7, 3)
    assert torch.equal(dropout(values, 0.0), values)


def test_dropout_depends_on_the_seed() -> None:
    draws = []
    for number in (5, 5, 6):
        torch.manual_seed(number)
        draws.append(dropout(torch.ones(50, 50), 0.3))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_the_layer_drops_only_in_training() -> None:
    layer, values = Dropout(0.5), torch.ones(40, 40)
    assert (layer(values) == 0).any()
    assert layer.eval()(values) is values
    assert NO_DROPOUT(values) is values


def test_seeds_of_a_pass_differ_and_repeat_from_a_restored_state() -> None:
    seeds = Seeds()
    seeds.next(CPU)
    state = seeds.state()
    drawn = [seeds.next(CPU) for _ in range(2 * Seeds.block)]
    numbers = [int(seed.numbers[seed.offset]) for seed in drawn]
    assert len(set(numbers)) == len(numbers)
    seeds.restore(state)
    again = [seeds.next(CPU) for _ in range(Seeds.block - 1)]  # the rest of the first block
    assert [int(seed.numbers[seed.offset]) for seed in again] == numbers[: Seeds.block - 1]
