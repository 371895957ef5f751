"""Metrics compared with scipy and scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from palbert import metrics
from palbert.metrics import Values
from palbert.registry import METRICS

stats = pytest.importorskip("scipy.stats")
reference = pytest.importorskip("sklearn.metrics")

Case = tuple[Values, Values]

ONES, ZEROS = np.ones(7, dtype=np.int64), np.zeros(7, dtype=np.int64)
MIXED = np.array([0, 1, 1, 0, 1, 0, 0])


def binary_cases() -> Iterator[Case]:
    generator = np.random.default_rng(0)
    for rows in (1, 2, 10, 500):
        for share in (0.05, 0.5, 0.95):
            gold = (generator.random(rows) < share).astype(np.int64)
            yield gold, (generator.random(rows) < share).astype(np.int64)
    yield from ((ONES, ZEROS), (ZEROS, ONES), (ONES, ONES), (ZEROS, ZEROS), (MIXED, ZEROS), (ZEROS, MIXED))


def class_cases() -> Iterator[Case]:
    generator = np.random.default_rng(1)
    for rows in (1, 3, 30, 1000):
        for classes in (2, 5, 12):
            gold = generator.integers(classes, size=rows)
            yield gold, np.where(generator.random(rows) < 0.6, gold, generator.integers(classes, size=rows))
    yield np.array([0, 1, 2]), np.array([4, 4, 4])
    yield np.array([3, 3, 3]), np.array([3, 3, 3])
    yield np.array([0, 4]), np.array([4, 0])


def number_cases() -> Iterator[Case]:
    generator = np.random.default_rng(2)
    for rows in (2, 3, 20, 1000):
        gold = np.round(generator.uniform(0, 5, rows) * 5) / 5  # many ties
        yield gold, gold + generator.normal(0, 0.7, rows)
        yield gold, np.round(gold + generator.normal(0, 0.7, rows))
        yield gold, -3.0 * gold + 1e6
        yield gold, generator.normal(size=rows) * 1e-9


@pytest.mark.parametrize(("gold", "predicted"), [*binary_cases()])
def test_binary_metrics_equal_those_of_scikit_learn(gold: Values, predicted: Values) -> None:
    for name, other in (
        ("precision", reference.precision_score),
        ("recall", reference.recall_score),
        ("f1", reference.f1_score),
    ):
        expected = other(gold, predicted, labels=[0, 1], zero_division=0.0)
        assert METRICS[name](gold, predicted) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("gold", "predicted"), [*class_cases(), *binary_cases()])
def test_class_metrics_equal_those_of_scikit_learn(gold: Values, predicted: Values) -> None:
    assert metrics.accuracy(gold, predicted) == pytest.approx(reference.accuracy_score(gold, predicted))
    expected = reference.f1_score(gold, predicted, average="macro", zero_division=0.0)
    assert metrics.macro_f1(gold, predicted) == pytest.approx(expected, abs=1e-12)
    labels = list(range(12))
    matrix = reference.confusion_matrix(gold, predicted, labels=labels)
    np.testing.assert_array_equal(metrics.confusion_matrix(gold, predicted, classes=12), matrix)


@pytest.mark.parametrize(("gold", "predicted"), [*class_cases()])
def test_per_class_scores_equal_those_of_scikit_learn(gold: Values, predicted: Values) -> None:
    expected = reference.precision_recall_fscore_support(gold, predicted, labels=list(range(12)), zero_division=0.0)
    found = metrics.per_class(gold, predicted, classes=12)
    rows = [(scores.precision, scores.recall, scores.f1, scores.support) for scores in found]
    np.testing.assert_allclose(np.array(rows).T, np.array(expected), atol=1e-12)


@pytest.mark.parametrize(("gold", "predicted"), [*number_cases()])
def test_correlations_equal_those_of_scipy(gold: Values, predicted: Values) -> None:
    if np.ptp(gold) and np.ptp(predicted):
        assert metrics.pearson(gold, predicted) == pytest.approx(stats.pearsonr(gold, predicted)[0], abs=1e-9)
        assert metrics.spearman(gold, predicted) == pytest.approx(stats.spearmanr(gold, predicted)[0], abs=1e-9)
    else:  # undefined for constants, where SciPy gives NaN
        assert metrics.pearson(gold, predicted) == metrics.spearman(gold, predicted) == 0.0


@pytest.mark.parametrize(("gold", "predicted"), [*number_cases()])
def test_errors_of_numbers_equal_those_of_scikit_learn(gold: Values, predicted: Values) -> None:
    squared = reference.mean_squared_error(gold, predicted)
    assert metrics.mean_squared_error(gold, predicted) == pytest.approx(squared)
    absolute = reference.mean_absolute_error(gold, predicted)
    assert metrics.mean_absolute_error(gold, predicted) == pytest.approx(absolute)


def multilabel_cases() -> Iterator[Case]:
    generator = np.random.default_rng(3)
    for rows in (1, 2, 30, 400):
        for share in (0.1, 0.5):
            gold = (generator.random((rows, 4)) < share).astype(np.int64)
            scores: Values = generator.random((rows, 4)) * 0.6 + 0.4 * gold
            yield gold, scores.round(1)  # many ties
    yield np.zeros((5, 3), dtype=np.int64), generator.random((5, 3))  # no positives
    yield np.zeros((5, 3), dtype=np.int64), np.zeros((5, 3))  # and none predicted
    yield np.ones((5, 3), dtype=np.int64), np.zeros((5, 3))
    yield np.eye(3, dtype=np.int64), np.eye(3)


@pytest.mark.filterwarnings("ignore:No positive class found")  # scikit-learn's warning about a score of 0
@pytest.mark.parametrize(("gold", "probabilities"), [*multilabel_cases()])
def test_multilabel_metrics_equal_those_of_scikit_learn(gold: Values, probabilities: Values) -> None:
    predicted = (probabilities > 0.5).astype(np.int64)
    f1 = {
        average: reference.f1_score(gold, predicted, average=average, zero_division=0) for average in ("micro", "macro")
    }
    assert metrics.micro_f1(gold, predicted) == pytest.approx(f1["micro"], abs=1e-12)
    assert metrics.macro_f1(gold, predicted) == pytest.approx(f1["macro"], abs=1e-12)
    assert metrics.subset_accuracy(gold, predicted) == pytest.approx(reference.accuracy_score(gold, predicted))
    columns = zip(gold.T, probabilities.T, strict=True)
    expected = np.mean([reference.average_precision_score(*column) for column in columns])
    assert metrics.average_precision(gold, probabilities) == pytest.approx(expected, abs=1e-12)
    scores = metrics.per_label(gold, predicted)
    counted = reference.precision_recall_fscore_support(gold, predicted, average=None, zero_division=0)
    found = [(each.precision, each.recall, each.f1, each.support) for each in scores]
    np.testing.assert_allclose(found, np.array(counted).T, atol=1e-12)
