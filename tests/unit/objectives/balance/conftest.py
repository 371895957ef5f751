"""Fixtures of the tests of balances: three goals and losses for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from palbert.objectives import Goal
from palbert.registry import LOSSES
from palbert.targets.binary import Binary
from palbert.targets.classes import Classes
from palbert.targets.number import Number


@pytest.fixture
def goals() -> dict[str, Goal]:
    """Return a goal of each target, under names that have a meaning in torch."""
    return {
        "keys": Goal(Classes(), LOSSES["cross-entropy"], task="sst"),
        "type": Goal(Binary(), LOSSES["binary-cross-entropy"], task="sst"),
        "2nd-task": Goal(Number(), LOSSES["mse"], task="sst"),
    }


@pytest.fixture
def whole(goals: dict[str, Goal]) -> dict[str, float]:
    """Return the shares of a step that is not split into pieces."""
    return dict.fromkeys(goals, 1.0)


@pytest.fixture
def losses_of(goals: dict[str, Goal]) -> Callable[..., dict[str, Tensor]]:
    """Return a function that turns numbers into losses."""

    def make(*values: float) -> dict[str, Tensor]:
        return {name: torch.tensor(value) for name, value in zip(goals, values, strict=False)}

    return make
