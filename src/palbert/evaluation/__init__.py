"""Evaluation: metrics with their uncertainty, plots, and reports that are made to be read."""

from palbert.evaluation.bootstrap import PairedDifference, interval, paired
from palbert.evaluation.data_summary import SplitSummary, render_data_report
from palbert.evaluation.metrics import METRICS, Metric, find_metric, formula_text, overall
from palbert.evaluation.report import RunReport, render_report
from palbert.evaluation.results import TaskResult

__all__ = [
    "METRICS",
    "Metric",
    "PairedDifference",
    "RunReport",
    "SplitSummary",
    "TaskResult",
    "find_metric",
    "formula_text",
    "interval",
    "overall",
    "paired",
    "render_data_report",
    "render_report",
]
