"""Extend: the base class of every part that a recipe can name, that of callbacks, and the types of their arguments.

Derive a class from one of these and name it in a recipe, `"my_module:MyClass"`, or in an entry point of your package.
docs/guides/add-a-method.md has an example of each.
"""

from __future__ import annotations

from palbert.batch import PackedBatch, Part
from palbert.gradients import GradientMethod, Weighting
from palbert.metrics import Metric, metric
from palbert.model.adapters import Adapter
from palbert.model.families import Family
from palbert.model.heads import Head
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Pooling
from palbert.model.relational import Relation
from palbert.objectives import Goal, Pass, Term
from palbert.objectives.balance import Balance
from palbert.options import check_count, check_number, check_switch
from palbert.reporting.panels import Panels
from palbert.runtime.distributed import Ranks
from palbert.targets import Decoded, Target
from palbert.training.averaging import Average
from palbert.training.callbacks import Callback
from palbert.training.samplers import Deterministic, Plan, Sampler, Settings
from palbert.training.schedule import Schedule
from palbert.training.trainer import Evaluation, Trainer

__all__ = [
    "Adapter",
    "Average",
    "Balance",
    "Callback",
    "Decoded",
    "Deterministic",
    "Evaluation",
    "Family",
    "Goal",
    "GradientMethod",
    "Head",
    "Metric",
    "MultiTaskModel",
    "PackedBatch",
    "Panels",
    "Part",
    "Pass",
    "Plan",
    "Pooling",
    "Ranks",
    "Relation",
    "Sampler",
    "Schedule",
    "Settings",
    "Target",
    "Term",
    "Trainer",
    "Weighting",
    "check_count",
    "check_number",
    "check_switch",
    "metric",
]
