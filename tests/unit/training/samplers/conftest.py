"""Fixtures of the sampler tests: samplers over sets of realistic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.training.samplers import Settings

ROWS = {"sst": 8544, "quora": 283003, "sts": 6040}


@pytest.fixture
def sampler() -> Callable[..., Any]:
    """Return a function that makes a sampler, with settings or options changed."""

    def make(cls: Any, *, batch_size: int = 16, **changes: Any) -> Any:
        settings: dict[str, Any] = {"rows": ROWS, "epochs": 5, "steps": 1800, "seed": 0}
        settings = {key: changes.pop(key, value) for key, value in settings.items()}
        sizes = dict.fromkeys(settings["rows"], batch_size)
        tasks = changes.pop("tasks", {name: name for name in settings["rows"]})
        return cls(Settings(batch_sizes=sizes, tasks=tasks, **settings), **changes)

    return make


@pytest.fixture
def by_formula() -> Callable[..., dict[str, float]]:
    """Return a function that computes p_i ∝ f_i N_i^α."""

    def compute(alpha: float, rows: dict[str, int] = ROWS, **factors: float) -> dict[str, float]:
        weights = {name: factors.get(name, 1) * count**alpha for name, count in rows.items()}
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}

    return compute
