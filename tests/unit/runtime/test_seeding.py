"""Seeds: a restored state gives the same draws again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from palbert.errors import CheckpointError
from palbert.runtime.distributed import Ranks
from palbert.runtime.seeding import random_state, restore_random_state, seed_everything

CPU = torch.device("cpu")
LAST = Path("run/checkpoints/last")


def test_the_same_seed_draws_the_same() -> None:
    with torch.random.fork_rng():
        seed_everything(3)
        first = torch.rand(5)
        seed_everything(3)
        assert torch.equal(torch.rand(5), first)
        seed_everything(4)
        assert not torch.equal(torch.rand(5), first)


def test_a_restored_generator_continues_where_it_was() -> None:
    with torch.random.fork_rng():
        seed_everything(3)
        torch.rand(7)
        state = random_state(CPU)
        expected = torch.rand(5)
        torch.rand(100)
        restore_random_state(LAST, state, CPU)
        assert torch.equal(torch.rand(5), expected)


def test_a_rank_that_the_saved_run_did_not_have_draws_its_own_numbers_again_and_again() -> None:
    with torch.random.fork_rng():
        seed_everything(3)
        state = random_state(CPU)
        draws = []
        for rank in (0, 1, 2, 1):
            restore_random_state(LAST, state, CPU, Ranks(rank, 3))
            draws.append(torch.rand(5))
    assert torch.equal(draws[1], draws[3])
    assert not torch.equal(draws[0], draws[1]) and not torch.equal(draws[1], draws[2])


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({}, "found none"),
        ({"cpu": torch.zeros(3, dtype=torch.uint8)}, "found torch.uint8 of shape"),
        ({"cpu": torch.get_rng_state().float()}, "found torch.float32"),
        ({"cpu": torch.zeros_like(torch.get_rng_state())}, "Invalid mt19937 state"),
    ],
    ids=["none", "size", "format", "content"],
)
def test_what_is_not_the_state_of_a_generator_is_refused(state: dict[str, torch.Tensor], says: str) -> None:
    with (
        torch.random.fork_rng(),
        pytest.raises(CheckpointError, match=rf"^run/checkpoints/last/random.safetensors: .*{says}.*--force"),
    ):
        restore_random_state(LAST, state, CPU)
