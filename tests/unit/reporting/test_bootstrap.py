"""Bootstrap: laws of intervals and paired differences."""

from __future__ import annotations

import time

import numpy as np
import pytest

from palbert.metrics import Metric, Values
from palbert.registry import METRICS, TARGETS
from palbert.reporting.bootstrap import bounds, distribution, paired


def interval(
    gold: Values, predicted: Values, metric: Metric, *, resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    values = distribution(gold, [predicted], metric, resamples=resamples, seed=seed)[0]
    return bounds(values, metric(gold, predicted), level=level)


def rows(count: int, *, seed: int = 0, right: float = 0.8) -> tuple[Values, Values]:
    generator = np.random.default_rng(seed)
    gold = generator.integers(2, size=count)
    return gold, np.where(generator.random(count) < right, gold, 1 - gold)


def numbers(count: int, *, seed: int = 0, noise: float = 1.0) -> tuple[Values, Values]:
    generator = np.random.default_rng(seed)
    gold = np.round(generator.uniform(0, 5, count) * 5) / 5
    return gold, gold + generator.normal(0, noise, count)


def probabilities(predicted: Values) -> Values:
    yes = 0.2 + 0.6 * predicted + np.random.default_rng(1).uniform(-0.2, 0.2, len(predicted))
    return np.stack([1.0 - yes, yes], axis=1)


def values_for(metric: Metric, count: int) -> tuple[Values, Values]:
    if TARGETS["number"]().fits(metric.name):
        return numbers(count)
    if TARGETS["classes"]().fits(metric.name) or TARGETS["binary"]().fits(metric.name):
        gold, predicted = rows(count)
        return gold, probabilities(predicted) if metric.of_probabilities else predicted
    gold, predicted = rows(3 * count)
    return gold.reshape(count, 3), predicted.reshape(count, 3)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("count", [1, 2, 9, 200])
def test_the_interval_contains_the_estimate(metric: Metric, count: int) -> None:
    gold, predicted = values_for(metric, count)
    low, high = interval(gold, predicted, metric, resamples=200)
    assert low <= metric(gold, predicted) <= high


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_the_interval_shrinks_with_more_rows(metric: Metric) -> None:
    widths = []
    for count in (100, 1600):
        low, high = interval(*values_for(metric, count), metric, resamples=300)
        widths.append(high - low)
    # Sixteen times the rows make an interval about a quarter as wide.
    assert widths[1] < widths[0] / 2.5


def test_a_higher_level_gives_a_wider_interval() -> None:
    gold, predicted = rows(300)
    inner = interval(gold, predicted, METRICS["accuracy"], level=0.5)
    outer = interval(gold, predicted, METRICS["accuracy"], level=0.99)
    assert outer[0] < inner[0] < inner[1] < outer[1]


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    gold, predicted = numbers(150)
    first = interval(gold, predicted, METRICS["pearson"], seed=3)
    assert interval(gold, predicted, METRICS["pearson"], seed=3) == first
    assert interval(gold, predicted, METRICS["pearson"], seed=4) != first


def test_perfect_predictions_have_no_spread() -> None:
    gold, _ = rows(50)
    assert interval(gold, gold, METRICS["accuracy"]) == (1.0, 1.0)


def test_the_interval_covers_the_truth_about_as_often_as_its_level() -> None:
    covered = 0
    for seed in range(150):
        low, high = interval(*rows(200, seed=seed, right=0.8), METRICS["accuracy"], resamples=200, seed=seed)
        covered += low <= 0.8 <= high
    assert 0.89 <= covered / 150 <= 0.99


def test_identical_predictions_do_not_differ() -> None:
    gold, predicted = numbers(100)
    found = paired(gold, predicted, predicted, METRICS["pearson"])
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_a_clear_difference_has_a_small_p_value_and_an_interval_without_zero() -> None:
    gold, good = rows(1000, right=0.9)
    _, poor = rows(1000, right=0.8)
    found = paired(gold, good, poor, METRICS["accuracy"])
    assert found.p_value < 0.01
    assert 0.0 < found.low < found.difference < found.high


def test_swapping_the_sets_flips_the_sign() -> None:
    gold, good = rows(300, right=0.9)
    _, poor = rows(300, right=0.85)
    one = paired(gold, good, poor, METRICS["accuracy"])
    other = paired(gold, poor, good, METRICS["accuracy"])
    assert (other.difference, other.low, other.high) == pytest.approx((-one.difference, -one.high, -one.low))
    assert other.p_value == one.p_value


def test_p_values_of_equally_good_predictions_are_rarely_small() -> None:
    small = 0
    for seed in range(100):
        gold, first = rows(150, seed=seed)
        generator = np.random.default_rng(seed + 1000)
        second = np.where(generator.random(150) < 0.8, gold, 1 - gold)
        small += paired(gold, first, second, METRICS["accuracy"], resamples=200, seed=seed).p_value < 0.05
    assert small <= 13


@pytest.mark.parametrize("name", ["accuracy", "pearson", "roc_auc", "quadratic_kappa", "median_absolute_error"])
def test_twenty_thousand_rows_are_resampled_quickly(name: str) -> None:
    gold, predicted = values_for(METRICS[name], 20_000)
    start = time.process_time()  # counts all threads: a metric that starts some is seen
    interval(gold, predicted, METRICS[name])
    # At most 0.5 s on an idle core; the bound leaves room for a busy machine.
    assert time.process_time() - start < 3.0


def test_resamples_where_a_metric_is_not_defined_do_not_count() -> None:
    def strict(gold: Values, predicted: Values) -> float:
        return float(np.mean(gold == predicted)) if len(set(gold.tolist())) == 2 else float("nan")

    gold, predicted = rows(6)
    low, high = interval(gold, predicted, Metric("strict", strict))
    assert 0.0 <= low <= high <= 1.0
    assert bounds(np.full(5, np.nan), 0.4) == (0.4, 0.4)
    assert paired(gold, predicted, gold, Metric("strict", strict)).p_value <= 1.0
