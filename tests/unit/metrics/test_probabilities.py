"""Metrics of probabilities: laws of rankings, absent classes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from palbert import metrics
from palbert.errors import DataError
from palbert.metrics import Values
from palbert.registry import METRICS

GOLD = np.array([0, 0, 1, 1, 0, 1])
YES = np.array([0.1, 0.4, 0.35, 0.8, 0.4, 0.9])
NAMES = ("roc_auc", "average_precision", "log_loss", "brier")


def two(yes: Values) -> Values:
    return np.stack([1.0 - yes, yes], axis=1)


def test_roc_auc_depends_only_on_the_order_and_turns_with_it() -> None:
    value = metrics.roc_auc(GOLD, two(YES))
    assert 0.5 < value < 1.0
    assert metrics.roc_auc(GOLD, two(YES**3)) == pytest.approx(value)
    assert metrics.roc_auc(GOLD, two(1.0 - YES)) == pytest.approx(1.0 - value)


def test_equal_probabilities_rank_at_random() -> None:
    same = np.full(6, 0.7)
    assert metrics.roc_auc(GOLD, two(same)) == 0.5
    assert metrics.average_precision(GOLD, two(same)) == 0.5  # half of the rows are positive


def test_labels_of_one_class_leave_the_ranking_undecided() -> None:
    ones, zeros = np.ones(6, dtype=np.int64), np.zeros(6, dtype=np.int64)
    assert metrics.roc_auc(ones, two(YES)) == metrics.roc_auc(zeros, two(YES)) == 0.5
    assert (metrics.average_precision(ones, two(YES)), metrics.average_precision(zeros, two(YES))) == (1.0, 0.0)


def test_an_absent_class_is_left_out_of_roc_auc_and_counts_zero_in_average_precision() -> None:
    columns = np.stack([GOLD, np.zeros_like(GOLD)], axis=1)
    scores = np.stack([YES, YES], axis=1)
    alone = columns[:, :1], scores[:, :1]
    assert metrics.roc_auc(columns, scores) == metrics.roc_auc(*alone)
    assert metrics.average_precision(columns, scores) == metrics.average_precision(*alone) / 2


def test_certainty_that_is_wrong_costs_much_and_stays_finite() -> None:
    wrong = two(1.0 - GOLD.astype(np.float64))
    assert 36.0 < metrics.log_loss(GOLD, wrong) < 37.0
    assert metrics.brier(GOLD, wrong) == 1.0


def test_the_best_constant_probability_is_the_share_of_the_class() -> None:
    gold = np.array([1, 0, 0, 0])
    for name in ("log_loss", "brier"):
        values = {share: METRICS[name](gold, two(np.full(4, share))) for share in (0.05, 0.2, 0.25, 0.3, 0.9)}
        assert min(values, key=values.__getitem__) == 0.25


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_of_another_shape_and_labels_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"probabilities of shape \(rows, classes\), found \(6,\)"):
        METRICS[name](GOLD, YES)
    with pytest.raises(DataError, match="class indices from 0 to 1, found 0 to 2"):
        METRICS[name](GOLD * 2, two(YES))
    with pytest.raises(DataError, match=r"in 1 of 6 rows.*lower learning rate"):
        METRICS[name](GOLD, two(np.where(YES > 0.85, np.nan, YES)))
