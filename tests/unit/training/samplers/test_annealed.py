"""Annealed: in proportion to size at first, almost evenly at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.errors import PalbertError
from palbert.training.samplers import Annealed, Proportional

Make = Callable[..., Any]


@pytest.mark.parametrize(("epoch", "alpha"), [(1, 1.0), (2, 0.8), (3, 0.6), (4, 0.4), (5, 0.2)])
def test_annealed_probabilities_follow_the_formula(sampler: Make, by_formula: Make, epoch: int, alpha: float) -> None:
    assert sampler(Annealed).probabilities(epoch) == pytest.approx(by_formula(alpha), rel=1e-9)


def test_annealed_sampler_of_one_epoch_draws_by_size(sampler: Make, by_formula: Make) -> None:
    assert sampler(Annealed, epochs=1).probabilities(1) == pytest.approx(by_formula(1.0))


@pytest.mark.parametrize("epoch", [1, 3, 5])
def test_annealed_sampler_without_decay_is_proportional(sampler: Make, epoch: int) -> None:
    assert sampler(Annealed, decay=0.0).epoch(epoch) == sampler(Proportional).epoch(epoch)


def test_annealed_sampler_with_full_decay_draws_evenly_in_the_last_epoch(sampler: Make, by_formula: Make) -> None:
    assert sampler(Annealed, decay=1.0).probabilities(5) == pytest.approx(by_formula(0.0))


@pytest.mark.parametrize(
    ("cls", "options", "reason"),
    [
        (Annealed, {"decay": "much"}, "decay: expected a number, found 'much'"),
    ],
)
def test_wrong_options_are_refused(sampler: Make, cls: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalbertError, match=reason):
        sampler(cls, **options)
