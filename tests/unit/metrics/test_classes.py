"""Metrics of classes: degenerate labels and predictions have a defined score."""

from __future__ import annotations

import numpy as np
import pytest

from palbert import metrics
from palbert.errors import DataError
from palbert.registry import METRICS

ZEROS = np.zeros(3, dtype=np.int64)


def test_precision_without_predicted_positives_is_zero() -> None:
    gold = np.array([1, 0, 1])
    assert (metrics.precision(gold, ZEROS), metrics.f1(gold, ZEROS)) == (0.0, 0.0)


def test_recall_without_positives_is_zero() -> None:
    assert metrics.recall(ZEROS, np.array([1, 0, 1])) == 0.0


@pytest.mark.parametrize("name", ["mcc", "kappa", "quadratic_kappa"])
def test_an_agreement_that_chance_explains_is_zero(name: str) -> None:
    assert METRICS[name](ZEROS, ZEROS) == 0.0
    assert METRICS[name](np.array([0, 1, 2]), ZEROS) == 0.0
    assert METRICS[name](np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])) == pytest.approx(0.0)


def test_quadratic_kappa_forgives_near_misses_and_kappa_does_not() -> None:
    gold, near, far = np.array([0, 1, 2, 3, 4]), np.array([1, 1, 2, 3, 4]), np.array([4, 1, 2, 3, 4])
    assert metrics.quadratic_kappa(gold, near) > metrics.quadratic_kappa(gold, far) + 0.2
    assert metrics.kappa(gold, near) == pytest.approx(metrics.kappa(gold, far))


def test_balanced_accuracy_counts_every_class_alike() -> None:
    gold, majority = np.array([0] * 9 + [1]), np.zeros(10, dtype=np.int64)
    assert (metrics.accuracy(gold, majority), metrics.balanced_accuracy(gold, majority)) == (0.9, 0.5)


def test_rows_without_classes_on_either_side_find_nothing_and_make_no_mistake() -> None:
    none = np.zeros((4, 3), dtype=np.int64)
    names = ("micro_precision", "micro_recall", "micro_f1", "macro_f1", "weighted_f1")
    assert [METRICS[name](none, none) for name in names] == [0.0] * len(names)
    assert metrics.subset_accuracy(none, none) == metrics.jaccard(none, none) == 1.0
    assert metrics.hamming_loss(none, none) == 0.0


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(rows, classes\), found \(2,\)"):
        metrics.micro_f1(np.array([1, 0]), np.array([1, 0]))
    with pytest.raises(DataError, match=r"shape \(rows,\), found \(2, 1\)"):
        metrics.accuracy(np.array([[1], [0]]), np.array([[1], [0]]))


def test_confusion_matrix_counts_gold_down_and_predicted_across() -> None:
    matrix = metrics.confusion_matrix(np.array([0, 0, 2]), np.array([1, 1, 2]), classes=3)
    assert matrix.tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 1]]


def test_confusion_matrix_refuses_a_class_out_of_range() -> None:
    with pytest.raises(DataError, match="from 0 to 1, found 0 to 2"):
        metrics.confusion_matrix(np.array([0, 1]), np.array([2, 1]), classes=2)
