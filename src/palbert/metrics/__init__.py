"""Metrics: how close predictions are to the gold labels, and the overall score made of them.

Numpy only. Class indices count from 0; the positive class of a binary task is 1. The registry `METRICS` has all of
them by name. What other libraries leave undefined is defined here, so that a score is always a finite number: a ratio
without cases (precision when nothing was predicted positive) is 0.0, and a correlation with a constant side is 0.0.
"""

from palbert.metrics.classes import (
    ClassScores,
    accuracy,
    balanced_accuracy,
    confusion_matrix,
    f1,
    hamming_loss,
    jaccard,
    kappa,
    macro_f1,
    macro_precision,
    macro_recall,
    mcc,
    micro_f1,
    micro_precision,
    micro_recall,
    per_class,
    per_label,
    precision,
    quadratic_kappa,
    recall,
    subset_accuracy,
    weighted_f1,
)
from palbert.metrics.combine import Formula, formula_text, overall
from palbert.metrics.definition import POSITIVE, UNBOUNDED, Metric, Values, metric
from palbert.metrics.find import find_metric, is_metric
from palbert.metrics.numbers import (
    explained_variance,
    mean_absolute_error,
    mean_squared_error,
    median_absolute_error,
    pearson,
    r2,
    root_mean_squared_error,
    spearman,
)
from palbert.metrics.probabilities import average_precision, brier, log_loss, roc_auc

__all__ = [
    "POSITIVE",
    "UNBOUNDED",
    "ClassScores",
    "Formula",
    "Metric",
    "Values",
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "brier",
    "confusion_matrix",
    "explained_variance",
    "f1",
    "find_metric",
    "formula_text",
    "hamming_loss",
    "is_metric",
    "jaccard",
    "kappa",
    "log_loss",
    "macro_f1",
    "macro_precision",
    "macro_recall",
    "mcc",
    "mean_absolute_error",
    "mean_squared_error",
    "median_absolute_error",
    "metric",
    "micro_f1",
    "micro_precision",
    "micro_recall",
    "overall",
    "pearson",
    "per_class",
    "per_label",
    "precision",
    "quadratic_kappa",
    "r2",
    "recall",
    "roc_auc",
    "root_mean_squared_error",
    "spearman",
    "subset_accuracy",
    "weighted_f1",
]
