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
    for name, other in (("macro_precision", "precision_score"), ("macro_recall", "recall_score")):
        expected = getattr(reference, other)(gold, predicted, average="macro", zero_division=0.0)
        assert METRICS[name](gold, predicted) == pytest.approx(expected, abs=1e-12)
    expected = reference.f1_score(gold, predicted, average="weighted", zero_division=0.0)
    assert metrics.weighted_f1(gold, predicted) == pytest.approx(expected, abs=1e-12)
    matrix = reference.confusion_matrix(gold, predicted, labels=labels)
    np.testing.assert_array_equal(metrics.confusion_matrix(gold, predicted, classes=12), matrix)


@pytest.mark.filterwarnings("ignore:.*single label was found")
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize(("gold", "predicted"), [*class_cases(), *binary_cases()])
def test_agreements_equal_those_of_scikit_learn(gold: Values, predicted: Values) -> None:
    expected = reference.balanced_accuracy_score(gold, predicted)
    assert metrics.balanced_accuracy(gold, predicted) == pytest.approx(expected, abs=1e-12)
    assert metrics.mcc(gold, predicted) == pytest.approx(reference.matthews_corrcoef(gold, predicted), abs=1e-12)
    if len({*gold.tolist(), *predicted.tolist()}) == 1:  # undefined, where scikit-learn gives NaN
        assert metrics.kappa(gold, predicted) == metrics.quadratic_kappa(gold, predicted) == 0.0
        return
    expected = reference.cohen_kappa_score(gold, predicted)
    assert metrics.kappa(gold, predicted) == pytest.approx(expected, abs=1e-12)
    expected = reference.cohen_kappa_score(gold, predicted, labels=list(range(12)), weights="quadratic")
    assert metrics.quadratic_kappa(gold, predicted) == pytest.approx(expected, abs=1e-12)


def probability_cases() -> Iterator[Case]:
    generator = np.random.default_rng(4)
    for rows in (3, 30, 500):
        for classes in (2, 3, 7):
            gold = generator.integers(classes, size=rows)
            gold[:2] = 0, classes - 1
            shares = generator.dirichlet(np.ones(classes), size=rows)
            yield gold, shares
            yield gold, np.eye(classes)[generator.integers(classes, size=rows)]  # certain, and tied
            rounded = shares.round(1) + 1e-3
            yield gold, rounded / rounded.sum(axis=1, keepdims=True)  # ties
    for only in (0, 1):
        yield np.full(5, only), generator.dirichlet(np.ones(3), size=5)
        yield np.full(5, only), generator.dirichlet(np.ones(2), size=5)


@pytest.mark.filterwarnings("ignore:No positive class found")
@pytest.mark.parametrize(("gold", "shares"), [*probability_cases()])
def test_metrics_of_probabilities_equal_those_of_scikit_learn(gold: Values, shares: Values) -> None:
    classes = shares.shape[1]
    labels = list(range(classes))
    expected = reference.log_loss(gold, shares, labels=labels)
    assert metrics.log_loss(gold, shares) == pytest.approx(expected, abs=1e-12)
    expected = reference.brier_score_loss(gold, shares, labels=labels)
    assert metrics.brier(gold, shares) == pytest.approx(expected, abs=1e-12)
    columns = np.eye(classes, dtype=np.int64)[gold]
    if classes == 2:
        columns, shares = columns[:, 1:], shares[:, 1:]
        rankings = gold, np.hstack([1.0 - shares, shares])
    else:
        rankings = gold, shares
    expected = np.mean([reference.average_precision_score(*each) for each in zip(columns.T, shares.T, strict=True)])
    assert metrics.average_precision(*rankings) == pytest.approx(expected, abs=1e-12)
    defined = [each for each in zip(columns.T, shares.T, strict=True) if 0 < each[0].sum() < len(gold)]
    areas = [reference.roc_auc_score(*each) for each in defined]
    assert metrics.roc_auc(*rankings) == pytest.approx(np.mean(areas) if areas else 0.5, abs=1e-12)


@pytest.mark.parametrize("classes", [2, 5])
def test_roc_auc_equals_that_of_scikit_learn_over_all_classes(classes: int) -> None:
    generator = np.random.default_rng(classes)
    gold = np.append(np.arange(classes), generator.integers(classes, size=200))
    shares = generator.dirichlet(np.ones(classes), size=len(gold))
    given = shares[:, 1] if classes == 2 else shares
    expected = reference.roc_auc_score(gold, given, multi_class="ovr", average="macro")
    assert metrics.roc_auc(gold, shares) == pytest.approx(expected, abs=1e-12)


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
    for name, other in (
        ("rmse", reference.root_mean_squared_error),
        ("median_absolute_error", reference.median_absolute_error),
        ("r2", reference.r2_score),
        ("explained_variance", reference.explained_variance_score),
    ):
        assert METRICS[name](gold, predicted) == pytest.approx(other(gold, predicted), rel=1e-12, abs=1e-12)


def test_r2_of_constant_labels_equals_that_of_scikit_learn() -> None:
    gold, other = np.full(5, 2.5), np.arange(5.0)
    assert metrics.r2(gold, gold) == reference.r2_score(gold, gold) == 1.0
    assert metrics.r2(gold, other) == reference.r2_score(gold, other) == 0.0


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
    for average in ("micro", "macro"):
        for name in ("precision", "recall"):
            other = getattr(reference, f"{name}_score")(gold, predicted, average=average, zero_division=0)
            assert METRICS[f"{average}_{name}"](gold, predicted) == pytest.approx(other, abs=1e-12)
    weighted = reference.f1_score(gold, predicted, average="weighted", zero_division=0)
    assert metrics.weighted_f1(gold, predicted) == pytest.approx(weighted, abs=1e-12)
    overlap = reference.jaccard_score(gold, predicted, average="samples", zero_division=1)
    assert metrics.jaccard(gold, predicted) == pytest.approx(overlap, abs=1e-12)
    assert metrics.hamming_loss(gold, predicted) == pytest.approx(reference.hamming_loss(gold, predicted), abs=1e-12)
    columns = list(zip(gold.T, probabilities.T, strict=True))
    areas = [reference.roc_auc_score(*each) for each in columns if 0 < each[0].sum() < len(gold)]
    assert metrics.roc_auc(gold, probabilities) == pytest.approx(np.mean(areas) if areas else 0.5, abs=1e-12)
    losses = [reference.log_loss(*each, labels=[0, 1]) for each in columns]
    assert metrics.log_loss(gold, probabilities) == pytest.approx(np.mean(losses), abs=1e-12)
    errors = [np.mean(np.square(true - shares)) for true, shares in columns]
    assert metrics.brier(gold, probabilities) == pytest.approx(np.mean(errors), abs=1e-12)
    expected = np.mean([reference.average_precision_score(*column) for column in columns])
    assert metrics.average_precision(gold, probabilities) == pytest.approx(expected, abs=1e-12)
    scores = metrics.per_label(gold, predicted)
    counted = reference.precision_recall_fscore_support(gold, predicted, average=None, zero_division=0)
    found = [(each.precision, each.recall, each.f1, each.support) for each in scores]
    np.testing.assert_allclose(found, np.array(counted).T, atol=1e-12)
