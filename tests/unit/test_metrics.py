"""Metrics: laws, degenerate inputs, and the overall score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palbert import metrics
from palbert.build.check import check_metric
from palbert.errors import DataError, PalbertError
from palbert.metrics import Metric, find_metric, formula_text, overall
from palbert.registry import METRICS, TARGETS

OF_COLUMNS = ("micro_f1", "subset_accuracy", "average_precision")
NUMBERS = np.array([0.0, 1.5, 3.0, 5.0])
CONSTANT = np.full(4, 0.1)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_a_correlation_with_a_constant_side_is_zero(name: str) -> None:
    for gold, predicted in ((NUMBERS, CONSTANT), (CONSTANT, NUMBERS), (CONSTANT, CONSTANT)):
        assert METRICS[name](gold, predicted) == 0.0


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_a_correlation_ignores_scale_and_shift_and_follows_the_sign(name: str) -> None:
    assert METRICS[name](NUMBERS, 100.0 * NUMBERS - 7.0) == pytest.approx(1.0)
    assert METRICS[name](NUMBERS, -NUMBERS) == pytest.approx(-1.0)


def test_spearman_depends_only_on_the_order() -> None:
    assert metrics.spearman(NUMBERS, np.exp(NUMBERS)) == pytest.approx(1.0)


def test_precision_without_predicted_positives_is_zero() -> None:
    gold, predicted = np.array([1, 0, 1]), np.zeros(3, dtype=np.int64)
    assert (metrics.precision(gold, predicted), metrics.f1(gold, predicted)) == (0.0, 0.0)


def test_recall_without_positives_is_zero() -> None:
    assert metrics.recall(np.zeros(3, dtype=np.int64), np.array([1, 0, 1])) == 0.0


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_perfect_predictions_score_one_and_have_no_error(metric: Metric) -> None:
    gold = NUMBERS if TARGETS["number"]().fits(metric.name) else np.array([0, 1, 1, 0])
    gold = gold[:, None] if metric.name in OF_COLUMNS else gold
    assert metric(gold, gold) == pytest.approx(1.0 if metric.higher_is_better else 0.0)
    assert metric.scaled(metric(gold, gold)) == pytest.approx(1.0)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_metric_refuses_no_rows_and_unequal_rows(metric: Metric) -> None:
    with pytest.raises(DataError, match="at least one row"):
        metric(np.array([]), np.array([]))
    gold = np.array([1, 0])
    gold = gold[:, None] if metric.name in OF_COLUMNS else gold
    with pytest.raises(DataError, match="as many predictions as labels"):
        metric(gold, gold[:1])


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(rows, classes\), found \(2,\)"):
        metrics.micro_f1(np.array([1, 0]), np.array([1, 0]))
    with pytest.raises(DataError, match=r"shape \(rows,\), found \(2, 1\)"):
        metrics.accuracy(np.array([[1], [0]]), np.array([[1], [0]]))


@pytest.mark.parametrize("name", TARGETS["number"].metrics)
def test_diverged_predictions_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"in 1 of 4 rows.*lower learning rate"):
        METRICS[name](NUMBERS, np.array([0.0, np.nan, 1.0, 2.0]))


def test_confusion_matrix_counts_gold_down_and_predicted_across() -> None:
    matrix = metrics.confusion_matrix(np.array([0, 0, 2]), np.array([1, 1, 2]), classes=3)
    assert matrix.tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 1]]


def test_confusion_matrix_refuses_a_class_out_of_range() -> None:
    with pytest.raises(DataError, match="from 0 to 1, found 0 to 2"):
        metrics.confusion_matrix(np.array([0, 1]), np.array([2, 1]), classes=2)


def test_an_unknown_metric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PalbertError, match="Did you mean 'pearson'"):
        find_metric("pearsons")


def test_a_metric_that_does_not_fit_the_target_is_refused() -> None:
    number = TARGETS["number"]()
    number.choice = "number"
    with pytest.raises(PalbertError, match=r"does not fit a number task. Use one of: mae, mse"):
        check_metric("accuracy", number)


def test_a_user_function_may_be_a_metric() -> None:
    metric = find_metric("numpy:dot")
    assert (metric.name, metric(np.array([1, 2]), np.array([3, 4]))) == ("numpy:dot", 11)


def test_a_metric_of_probabilities_refuses_to_work_without_them() -> None:
    predicted, probabilities = np.array([1, 0]), np.array([[0.2, 0.8], [0.7, 0.3]])
    assert metrics.accuracy.compared(predicted, probabilities) is predicted
    ranking = replace(metrics.accuracy, of_probabilities=True)
    assert ranking.compared(predicted, probabilities) is probabilities
    with pytest.raises(PalbertError, match="needs the probability of each class"):
        ranking.compared(predicted, None)


SCORES = {"sst": ("accuracy", 0.516), "quora": ("accuracy", 0.862), "sts": ("pearson", 0.866)}
NAMES = {task: metric for task, (metric, _) in SCORES.items()}


def test_scaled_mean_is_the_formula_of_the_reports() -> None:
    assert overall(SCORES, "scaled-mean") == pytest.approx((0.516 + 0.862 + (0.866 + 1) / 2) / 3)
    text = "(sst.accuracy + quora.accuracy + (sts.pearson + 1) / 2) / 3"
    assert formula_text(NAMES, "scaled-mean") == text


def test_mean_does_not_scale_the_scores() -> None:
    assert overall(SCORES, "mean") == pytest.approx((0.516 + 0.862 + 0.866) / 3)
    assert formula_text(NAMES, "mean") == "(sst.accuracy + quora.accuracy + sts.pearson) / 3"


def test_the_formula_of_one_task_has_no_division() -> None:
    assert formula_text({"sst": "accuracy"}) == "sst.accuracy"
    assert formula_text({"sts": "pearson"}) == "(sts.pearson + 1) / 2"


@pytest.mark.parametrize("name", METRICS)
def test_the_written_formula_gives_the_overall_score(name: str) -> None:
    class Scores:
        pass

    scores = Scores()
    setattr(scores, name, 0.3)
    written = formula_text({"a": name, "b": "accuracy"})
    other = type("Other", (), {"accuracy": 0.7})
    value = eval(written, {"a": scores, "b": other})
    assert overall({"a": (name, 0.3), "b": ("accuracy", 0.7)}) == pytest.approx(value)


def test_a_lower_error_gives_a_higher_overall_score() -> None:
    assert overall({"sts": ("mse", 0.2)}) > overall({"sts": ("mse", 0.9)})


def test_the_plain_mean_refuses_a_metric_where_lower_is_better() -> None:
    with pytest.raises(PalbertError, match=r"cannot hold sts.mse.*scaled-mean"):
        overall({"sts": ("mse", 0.2)}, "mean")


def test_an_overall_score_of_nothing_is_refused() -> None:
    with pytest.raises(PalbertError, match="at least one task"):
        overall({})
