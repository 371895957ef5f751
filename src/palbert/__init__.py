"""palbert: one pretrained BERT encoder, many sentence-level tasks.

import palbert
run = palbert.train("demo")
palbert.load(run).predict("sts", [("A man plays a guitar.", "Someone makes music.")])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palbert.errors import PalbertError, StoppedError
    from palbert.explanations.explanation import Explanation
    from palbert.recipe.load import load_recipe, make_recipe
    from palbert.recipe.typed import Optimizer, Recipe, Task, Training
    from palbert.reproduction.reproduce import reproduce
    from palbert.reproduction.results_page import results
    from palbert.reproduction.submit import Submission, submit
    from palbert.serving.audit_reader import read_audit_log
    from palbert.serving.serve import serve
    from palbert.verbs.add_task import add_task
    from palbert.verbs.audit_bias import BiasAudit, audit_bias
    from palbert.verbs.card import card
    from palbert.verbs.check import check_data
    from palbert.verbs.compare import compare
    from palbert.verbs.cross_validate import cross_validate
    from palbert.verbs.dry_run import dry_run
    from palbert.verbs.evaluate import evaluate
    from palbert.verbs.export import Exported, export
    from palbert.verbs.merge import Merged, merge
    from palbert.verbs.parts import parts
    from palbert.verbs.predict import Prediction, Predictor, load
    from palbert.verbs.pretrain import pretrain
    from palbert.verbs.push import Pushed, push
    from palbert.verbs.remove_task import remove_task
    from palbert.verbs.run import Run
    from palbert.verbs.train import train
    from palbert.verbs.tune import Tuned, tune

__version__ = "0.1.0"
__all__ = [
    "BiasAudit",
    "Explanation",
    "Exported",
    "Merged",
    "Optimizer",
    "PalbertError",
    "Prediction",
    "Predictor",
    "Pushed",
    "Recipe",
    "Run",
    "StoppedError",
    "Submission",
    "Task",
    "Training",
    "Tuned",
    "add_task",
    "audit_bias",
    "card",
    "check_data",
    "compare",
    "cross_validate",
    "dry_run",
    "evaluate",
    "export",
    "load",
    "load_recipe",
    "make_recipe",
    "merge",
    "parts",
    "pretrain",
    "push",
    "read_audit_log",
    "remove_task",
    "reproduce",
    "results",
    "serve",
    "submit",
    "train",
    "tune",
]

_HOMES = {
    "PalbertError": "errors",
    "StoppedError": "errors",
    "Optimizer": "recipe.typed",
    "Recipe": "recipe.typed",
    "Task": "recipe.typed",
    "Training": "recipe.typed",
    "Explanation": "explanations.explanation",
    "Prediction": "verbs.predict",
    "Predictor": "verbs.predict",
    "Run": "verbs.run",
    "Submission": "reproduction.submit",
    "card": "verbs.card",
    "BiasAudit": "verbs.audit_bias",
    "audit_bias": "verbs.audit_bias",
    "add_task": "verbs.add_task",
    "check_data": "verbs.check",
    "compare": "verbs.compare",
    "cross_validate": "verbs.cross_validate",
    "dry_run": "verbs.dry_run",
    "evaluate": "verbs.evaluate",
    "Exported": "verbs.export",
    "export": "verbs.export",
    "load": "verbs.predict",
    "load_recipe": "recipe.load",
    "make_recipe": "recipe.load",
    "Merged": "verbs.merge",
    "merge": "verbs.merge",
    "parts": "verbs.parts",
    "pretrain": "verbs.pretrain",
    "Pushed": "verbs.push",
    "push": "verbs.push",
    "remove_task": "verbs.remove_task",
    "read_audit_log": "serving.audit_reader",
    "reproduce": "reproduction.reproduce",
    "results": "reproduction.results_page",
    "serve": "serving.serve",
    "submit": "reproduction.submit",
    "train": "verbs.train",
    "Tuned": "verbs.tune",
    "tune": "verbs.tune",
}


def __getattr__(name: str) -> Any:
    # Imported when first used: `palbert --help` must not wait for torch.
    if name not in __all__:
        raise AttributeError(f"module 'palbert' has no attribute '{name}'")
    return getattr(importlib.import_module(f"palbert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
