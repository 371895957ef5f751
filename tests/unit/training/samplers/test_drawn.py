"""Drawn samplers: factors, and draws that follow the probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import chisquare

from palbert.errors import PalbertError
from palbert.registry import SAMPLERS
from palbert.training.samplers import Annealed, Drawn, Proportional, Sampler, SquareRoot

Make = Callable[..., Any]
ROWS = {"sst": 8544, "quora": 283003, "sts": 6040}
SNLI = {**ROWS, "snli": 366374}
DRAWN = [cls for cls in SAMPLERS.values() if issubclass(cls, Drawn)]


@pytest.mark.parametrize("cls", DRAWN)
def test_factors_multiply_the_weights(sampler: Make, by_formula: Make, cls: type[Drawn]) -> None:
    chosen = sampler(cls, rows=SNLI, factors={"snli": 0.1})
    for epoch in (1, 4):
        expected = by_formula(chosen.exponent(epoch), SNLI, snli=0.1)
        assert chosen.probabilities(epoch) == pytest.approx(expected)


@pytest.mark.parametrize("cls", DRAWN)
def test_a_common_factor_changes_nothing(sampler: Make, cls: type[Drawn]) -> None:
    plain, factored = sampler(cls), sampler(cls, factors=dict.fromkeys(ROWS, 3))
    assert factored.probabilities(2) == pytest.approx(plain.probabilities(2))
    assert sampler(cls, factors={}).epoch(2) == plain.epoch(2)


@pytest.mark.parametrize("cls", DRAWN)
def test_a_set_with_factor_0_is_never_drawn(sampler: Make, cls: type[Drawn]) -> None:
    chosen = sampler(cls, factors={"quora": 0})
    assert chosen.planned(1)["quora"] == 0.0
    assert {task for (task,) in chosen.epoch(1)} == {"sst", "sts"}


@pytest.mark.parametrize("cls", DRAWN)
@pytest.mark.parametrize("epoch", [1, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("factors", [None, {"quora": 0.1, "sts": 2.0}])
def test_sets_are_drawn_as_often_as_planned(
    sampler: Make, cls: type[Sampler], epoch: int, seed: int, factors: Any
) -> None:
    chosen = sampler(cls, steps=20_000, seed=seed, factors=factors)
    counts, planned = Counter(task for (task,) in chosen.epoch(epoch)), chosen.planned(epoch)
    # A correct sampler falls below this once in a thousand times; the seeds are fixed.
    assert chisquare([counts[task] for task in ROWS], [planned[task] for task in ROWS]).pvalue > 1e-3


@pytest.mark.parametrize("cls", DRAWN)
def test_seeds_and_epochs_draw_differently(sampler: Make, cls: type[Sampler]) -> None:
    even = {"a": 10, "b": 10}
    chosen = sampler(cls, rows=even, steps=60)
    assert chosen.epoch(1) != chosen.epoch(2)
    assert chosen.epoch(1) != sampler(cls, rows=even, steps=60, seed=1).epoch(1)


@pytest.mark.parametrize("cls", DRAWN)
def test_one_pass_has_as_many_steps_as_all_sets_have_batches(sampler: Make, cls: type[Sampler]) -> None:
    assert sampler(cls, rows={"a": 10, "b": 33}, batch_size=4, steps=None).steps == 3 + 9


@pytest.mark.parametrize(
    ("cls", "options", "reason"),
    [
        (Proportional, {"factors": {"snli": 0.1}}, r"factors: unknown set 'snli'. Known: quora, sst, sts\."),
        (Annealed, {"factors": {"sst": -1}}, r"factors\.sst: expected a number from 0, found -1\."),
        (SquareRoot, {"factors": {"sst": "half"}}, r"factors\.sst: .* found 'half'"),
        (Proportional, {"factors": {"sst": float("inf")}}, r"factors\.sst: .* found inf"),
        (Proportional, {"factors": dict.fromkeys(ROWS, 0)}, "at least one needs a factor above 0"),
        (Proportional, {"factors": 0.1}, r"factors: expected a number for each set, as in .*, found 0\.1"),
    ],
)
def test_wrong_options_are_refused(sampler: Make, cls: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalbertError, match=reason):
        sampler(cls, **options)
