"""Loss spikes: what is one, and what is only a rare row."""

from __future__ import annotations

import random

import pytest

from palbert.training.spikes import FIRST, WINDOW, add_loss, find_spike


def spikes(losses: list[float]) -> list[int]:
    """Return the places of the spikes in a series of losses."""
    recent: list[float] = []
    highest: float | None = None
    found = []
    for place, loss in enumerate(losses):
        if find_spike(loss, recent=recent, highest=loss if highest is None else highest) is not None:
            found.append(place)
        highest = add_loss(loss, recent, highest)
        assert len(recent) <= WINDOW
    return found


def falling(steps: int, seed: int = 0) -> list[float]:
    """Return losses that fall from 2 to 0.1 and vary by half."""
    draw = random.Random(seed)
    return [(0.1 + 1.9 * 0.98**step) * draw.uniform(0.5, 1.5) for step in range(steps)]


def test_a_loss_many_times_the_usual_one_is_a_spike() -> None:
    losses = falling(200)
    losses[120] = 10.0
    assert spikes(losses) == [120]


@pytest.mark.parametrize("seed", range(20))
def test_losses_that_fall_and_vary_have_no_spike(seed: int) -> None:
    assert spikes(falling(500, seed)) == []


def test_a_rare_row_of_a_set_that_is_almost_learnt_is_no_spike() -> None:
    losses = [2.0] * FIRST + [0.01] * 200
    losses[150] = 1.5  # 150 times the usual, but not above where it began
    assert spikes(losses) == []


def test_the_first_losses_have_no_spike() -> None:
    assert spikes([1.0] * (FIRST - 1) + [100.0, 1.0]) == []
    assert spikes([1.0] * FIRST + [100.0, 1.0]) == [FIRST]


def test_a_jump_to_a_new_level_ends_when_it_has_become_usual() -> None:
    found = spikes([1.0] * 100 + [50.0] * 100)
    assert found == list(range(100, 100 + WINDOW // 2))


def test_losses_below_zero_are_compared_by_their_spread() -> None:
    draw = random.Random(1)
    losses = [draw.gauss(-5, 0.1) for _ in range(200)]
    losses[77] = 20.0
    assert spikes(losses) == [77]


def test_a_rule_of_the_medians_is_not_moved_by_earlier_spikes() -> None:
    losses = [1.0 + 0.01 * (step % 7) for step in range(200)]
    for place in range(60, 100, 5):
        losses[place] = 30.0
    assert spikes(losses) == list(range(60, 100, 5))
