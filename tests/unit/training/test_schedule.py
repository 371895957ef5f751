"""Schedules: pure functions of the step."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from palbert.build import check_names
from palbert.errors import PalbertError, RecipeError
from palbert.recipe.load import make_recipe
from palbert.registry import SCHEDULES
from palbert.training.schedule import STLR, Constant, CosineDecay, SlantedTriangle


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
def test_every_step_of_a_short_run_has_a_positive_rate(name: str, total: int) -> None:
    factors = [SCHEDULES[name]()(step, total) for step in range(total)]
    assert all(0 < factor <= 1 for factor in factors)


def test_stlr_without_warm_up_starts_at_the_peak() -> None:
    assert [STLR(warmup=0.0)(step, 4) for step in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize(("total", "warmup"), [(100, 0.1), (1800, 0.1), (40, 0.25), (4, 0.0)])
@pytest.mark.parametrize("end", [0.0, 0.1, 1.0])
def test_cosine_follows_the_closed_form(total: int, warmup: float, end: float) -> None:
    schedule, rise = CosineDecay(warmup=warmup, end=end), max(1, round(warmup * total))
    for step in range(total + 1):
        if step < rise:
            expected = (step + 1) / rise
        else:
            angle = math.pi * (step - rise + 1) / (total - rise + 1)
            expected = end + (1 - end) * (1 + math.cos(angle)) / 2
        assert schedule(step, total) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("total", [30, 100, 333, 1801])
def test_cosine_rises_like_stlr_and_falls_until_the_end(total: int) -> None:
    factors = np.array([CosineDecay()(step, total) for step in range(total + 1)])
    top = int(np.argmax(factors))
    straight = [STLR()(step, total) for step in range(top)]
    assert factors[:top].tolist() == straight
    assert (np.diff(factors[top:]) < 0).all()
    assert factors[total] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("end", [0.0, 0.25])
def test_cosine_is_halfway_down_in_the_middle(end: float) -> None:
    assert CosineDecay(warmup=0.0, end=end)(50, 100) == pytest.approx((1 + end) / 2)


def ulmfit(step: int, total: int, cut_frac: Fraction, ratio: int) -> Fraction:
    """Equation 3 of arXiv:1801.06146 in whole fractions, for runs that it divides evenly."""
    cut = total * cut_frac
    assert cut.denominator == 1
    p = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
    return (1 + p * (ratio - 1)) / ratio


@pytest.mark.parametrize(
    ("total", "cut_frac", "ratio"),
    [(100, Fraction(1, 10), 32), (1800, Fraction(1, 10), 32), (40, Fraction(1, 4), 8), (64, Fraction(1, 2), 2)],
)
def test_slanted_triangle_follows_the_paper(total: int, cut_frac: Fraction, ratio: int) -> None:
    schedule = SlantedTriangle(cut_frac=float(cut_frac), ratio=ratio)
    for step in range(total + 1):
        assert schedule(step, total) == pytest.approx(float(ulmfit(step, total, cut_frac, ratio)), rel=1e-9)


@pytest.mark.parametrize("total", [10, 100, 1800])
def test_slanted_triangle_starts_and_ends_at_one_32nd_of_the_peak(total: int) -> None:
    schedule = SlantedTriangle()
    assert schedule(0, total) == schedule(total, total) == 1 / 32
    assert schedule(total // 10, total) == 1.0


@pytest.mark.parametrize("total", range(1, 60))
def test_slanted_triangle_stays_between_its_bounds(total: int) -> None:
    factors = [SlantedTriangle()(step, total) for step in range(total + 1)]
    assert all(1 / 32 <= factor <= 1 for factor in factors)
    assert max(factors) == 1.0


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_a_schedule_depends_on_the_step_alone(name: str) -> None:
    forward = [SCHEDULES[name]()(step, 50) for step in range(50)]
    schedule = SCHEDULES[name]()
    assert [schedule(step, 50) for step in reversed(range(50))] == forward[::-1]


@pytest.mark.parametrize(
    ("cls", "options", "reason"),
    [
        (STLR, {"warmup": 1.5}, r"warmup: expected a number from 0 and up to 1, found 1\.5"),
        (CosineDecay, {"warmup": -0.1}, r"warmup: .* found -0\.1"),
        (CosineDecay, {"end": 2}, "end: .* found 2"),
        (SlantedTriangle, {"cut_frac": 1.0}, r"cut_frac: expected a number above 0 and below 1, found 1\.0"),
        (SlantedTriangle, {"ratio": 0.5}, r"ratio: expected a number from 1, found 0\.5"),
        (SlantedTriangle, {"ratio": True}, "ratio: .* found True"),
        (CosineDecay, {"end": math.nan}, "end: .* found nan"),
    ],
)
def test_an_impossible_option_is_refused(cls: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalbertError, match=reason):
        cls(**options)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"name": "cosine", "ends": 0.1}, r"optimizer\.schedule: .*'ends'.*Did you mean 'end'\?"),
        ({"name": "cosine", "end": 7}, r"optimizer\.schedule: end: .* found 7"),
    ],
)
def test_a_recipe_with_a_wrong_option_is_refused(choice: Any, reason: str) -> None:
    recipe = make_recipe({"data": "samples", "tasks": ["sst"], "optimizer": {"schedule": choice}})
    with pytest.raises(RecipeError, match=reason):
        check_names(recipe)
