"""Metrics: what holds for every one of them, and how scores are mapped to 0…1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from palbert import metrics
from palbert.errors import DataError, PalbertError
from palbert.metrics import Metric, Values
from palbert.registry import METRICS, TARGETS

NUMBERS = np.array([0.0, 1.5, 3.0, 5.0])
CLASSES = np.array([0, 1, 1, 0])


def perfect(metric: Metric) -> tuple[Values, Values]:
    """Return labels that a metric takes, and what it would compare with them if every prediction was right."""
    if TARGETS["number"]().fits(metric.name):
        return NUMBERS, NUMBERS
    of_rows = TARGETS["binary"]().fits(metric.name)
    gold = CLASSES if of_rows else CLASSES[:, None]
    if metric.of_probabilities and of_rows:
        return gold, np.stack([1.0 - gold, gold], axis=1)
    return gold, gold


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_perfect_predictions_score_one_and_have_no_error(metric: Metric) -> None:
    value = metric(*perfect(metric))
    assert value == pytest.approx(1.0 if metric.higher_is_better else 0.0)
    assert metric.scaled(value) == pytest.approx(1.0)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_metric_refuses_no_rows_and_unequal_rows(metric: Metric) -> None:
    with pytest.raises(DataError, match="at least one row"):
        metric(np.array([]), np.array([]))
    gold, predicted = perfect(metric)
    with pytest.raises(DataError, match="as many predictions as labels"):
        metric(gold, predicted[:1])


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_resampler_gives_what_the_metric_gives_for_the_same_rows(metric: Metric) -> None:
    generator = np.random.default_rng(0)
    gold: Any = perfect(metric)[0]
    gold = np.concatenate([gold] * 10)
    predicted: Any = generator.permutation(gold)
    if metric.of_probabilities:
        shares = generator.random(gold.shape).round(1)  # many ties
        predicted = shares if gold.ndim == 2 else np.stack([1.0 - shares, shares], axis=1)
    score = metric.resampler(gold, predicted)
    for _ in range(20):
        rows = generator.integers(len(gold), size=len(gold))
        assert score(rows) == pytest.approx(metric(gold[rows], predicted[rows]), abs=1e-12)


@pytest.mark.parametrize("found", [None, math.nan, -math.inf, "0.5", np.ones(3), [0.5]], ids=repr)
def test_a_metric_that_does_not_return_one_finite_number_is_refused(found: Any) -> None:
    metric = Metric("my:metric", lambda gold, predicted: found)
    with pytest.raises(DataError, match=r"'my:metric' returned .*; expected one finite number\. Let it return"):
        metric(CLASSES, CLASSES)
    assert math.isnan(metric.resampler(CLASSES, CLASSES)(np.arange(4)))


@pytest.mark.parametrize("found", [1, True, np.float32(0.5), np.array(0.25)], ids=repr)
def test_one_number_of_any_type_becomes_a_float(found: Any) -> None:
    value = Metric("my:metric", lambda gold, predicted: found)(CLASSES, CLASSES)
    assert type(value) is float and value == float(found)


def test_a_metric_that_fails_on_a_resample_has_no_value_there() -> None:
    def strict(gold: Values, predicted: Values) -> float:
        if len(set(gold.tolist())) < 2:
            raise ValueError("one class only")
        return 1.0

    score = Metric("my:strict", strict).resampler(CLASSES, CLASSES)
    assert score(np.array([0, 1])) == 1.0 and math.isnan(score(np.array([1, 2])))


def test_a_metric_of_probabilities_refuses_to_work_without_them() -> None:
    predicted, probabilities = np.array([1, 0]), np.array([[0.2, 0.8], [0.7, 0.3]])
    assert metrics.accuracy.compared(predicted, probabilities) is predicted
    ranking = replace(metrics.accuracy, of_probabilities=True)
    assert ranking.compared(predicted, probabilities) is probabilities
    with pytest.raises(PalbertError, match="needs the probability of each class"):
        ranking.compared(predicted, None)


@pytest.mark.parametrize("range", [(1.0, 0.0), (0.0, 0.0), (-math.inf, math.inf)])
def test_a_range_without_order_or_without_an_end_is_refused(range: tuple[float, float]) -> None:
    with pytest.raises(PalbertError, match="'odd' needs a range"):
        metrics.metric(name="odd", range=range)(lambda gold, predicted: 0.0)


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize(
    "range", [(0.0, 1.0), (-1.0, 1.0), (1.0, 5.0), (0.0, 2.0), (0.0, math.inf), (2.0, math.inf), (-math.inf, 1.0)]
)
def test_a_better_value_is_mapped_closer_to_one_as_written(range: tuple[float, float], higher: bool) -> None:
    metric = Metric("any", lambda gold, predicted: 0.0, higher_is_better=higher, range=range)
    low, high = range
    values = np.linspace(high - 9 if math.isinf(low) else low, low + 9 if math.isinf(high) else high, 7)
    scaled = [metric.scaled(value) for value in values]
    assert all(0.0 <= each <= 1.0 for each in scaled)
    assert scaled == sorted(scaled, reverse=not higher) and len(set(scaled)) == len(scaled)
    written = [eval(metric.scaled_text("x"), {"x": value}) for value in values]
    assert written == pytest.approx(scaled)


def test_the_formulas_of_known_ranges_are_short() -> None:
    written = {name: METRICS[name].scaled_text("x") for name in ("accuracy", "pearson", "mse", "r2", "hamming_loss")}
    assert written == {
        "accuracy": "x",
        "pearson": "(x + 1) / 2",
        "mse": "1 / (1 + x)",
        "r2": "1 / (1 + 1 - x)",
        "hamming_loss": "1 - x",
    }
