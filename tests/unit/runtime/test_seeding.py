"""Seeds: a restored state gives the same draws again."""

from __future__ import annotations

import torch

from palbert.runtime.distributed import Ranks
from palbert.runtime.seeding import random_state, restore_random_state, seed_everything

CPU = torch.device("cpu")


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
        restore_random_state(state, CPU)
        assert torch.equal(torch.rand(5), expected)


def test_a_rank_that_the_saved_run_did_not_have_draws_its_own_numbers_again_and_again() -> None:
    with torch.random.fork_rng():
        seed_everything(3)
        state = random_state(CPU)
        draws = []
        for rank in (0, 1, 2, 1):
            restore_random_state(state, CPU, Ranks(rank, 3))
            draws.append(torch.rand(5))
    assert torch.equal(draws[1], draws[3])
    assert not torch.equal(draws[0], draws[1]) and not torch.equal(draws[1], draws[2])
