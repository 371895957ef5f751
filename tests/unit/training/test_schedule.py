"""Schedules: pure functions of the step."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.training.schedule import SCHEDULES, STLR, Constant


def test_constant_is_1() -> None:
    assert {Constant()(step, 50) for step in range(50)} == {1.0}


@pytest.mark.parametrize(("total", "warmup"), [(100, 0.1), (1800, 0.1), (40, 0.25), (10, 0.5), (20, 1.0)])
def test_stlr_peaks_at_the_end_of_the_warm_up(total: int, warmup: float) -> None:
    factors = [STLR(warmup=warmup)(step, total) for step in range(total)]
    assert max(factors) == pytest.approx(1.0)
    assert int(np.argmax(factors)) + 1 == round(warmup * total)


@pytest.mark.parametrize("total", [30, 100, 333, 1801])
def test_stlr_rises_and_falls_along_straight_lines(total: int) -> None:
    factors = np.array([STLR()(step, total) for step in range(total)])
    top = int(np.argmax(factors))
    rising, falling = np.diff(factors[: top + 1])[:-1], np.diff(factors[top:])
    assert (rising > 0).all()
    assert (falling < 0).all()
    assert np.allclose(rising, rising[:1], rtol=1e-9) and np.allclose(falling, falling[0], rtol=1e-9)


@pytest.mark.parametrize("total", [10, 100, 1800])
def test_stlr_reaches_0_right_after_the_last_step(total: int) -> None:
    schedule = STLR()
    assert schedule(total, total) == 0.0
    assert 0 < schedule(total - 1, total) <= 1 / (0.9 * total)
    assert schedule(0, total) > 0


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@pytest.mark.parametrize("total", [1, 2, 3, 7, 11, 15])
def test_every_step_of_a_short_run_moves(name: str, total: int) -> None:
    factors = [SCHEDULES[name]()(step, total) for step in range(total)]
    assert all(0 < factor <= 1 for factor in factors)


def test_stlr_without_warm_up_starts_at_the_peak() -> None:
    assert [STLR(warmup=0.0)(step, 4) for step in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
