"""Temperature: from proportional to even draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.errors import PalbertError
from palbert.training.samplers import SquareRoot, Temperature

Make = Callable[..., Any]


@pytest.mark.parametrize(("temperature", "alpha"), [(1, 1.0), (2.0, 0.5), (5.0, 0.2), (float("inf"), 0.0)])
def test_temperature_probabilities_follow_the_formula(
    sampler: Make, by_formula: Make, temperature: float, alpha: float
) -> None:
    chosen = sampler(Temperature, temperature=temperature)
    assert chosen.probabilities(3) == pytest.approx(by_formula(alpha))


def test_temperature_2_is_the_square_root(sampler: Make) -> None:
    assert sampler(Temperature).epoch(2) == sampler(SquareRoot).epoch(2)


@pytest.mark.parametrize(
    ("cls", "options", "reason"),
    [
        (Temperature, {"temperature": -1.0}, r"temperature: expected a number above 0, found -1\.0"),
    ],
)
def test_wrong_options_are_refused(sampler: Make, cls: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalbertError, match=reason):
        sampler(cls, **options)
