"""Proportional: in proportion to size in every epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.training.samplers import Proportional

Make = Callable[..., Any]


@pytest.mark.parametrize("epoch", [1, 2, 5])
def test_proportional_sampler_draws_by_size_in_every_epoch(sampler: Make, by_formula: Make, epoch: int) -> None:
    assert sampler(Proportional).probabilities(epoch) == pytest.approx(by_formula(1.0))
