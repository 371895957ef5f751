"""Decide: choose calibration and thresholds on dev after training, and keep them in the checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from palbert.build import load_split
from palbert.data.tokenizer import TextTokenizer
from palbert.inference.decisions import Decision, fits, needs_rows, read_decisions, write_decisions
from palbert.inference.evaluator import Inference
from palbert.recipe.schema import Recipe
from palbert.tasks.spec import Task

log = logging.getLogger(__name__)


def choose_decisions(
    checkpoint: Path, recipe: Recipe, inference: Inference, tokenizer: TextTokenizer
) -> dict[str, Decision]:
    """Return how each task that asks for it turns outputs into answers: as stored, or chosen on dev now and stored.

    Args:
        checkpoint: The folder of the checkpoint, which keeps what is chosen.
        recipe: Says what the tasks ask for.
        inference: The checkpoint's model.
        tokenizer: Its tokenizer.
    """
    asked = {name: task for name, task in recipe.tasks.items() if needs_rows(task)}
    stored = {name: decision for name, decision in read_decisions(checkpoint).items() if name in asked}
    if all(name in stored and fits(stored[name], task) for name, task in asked.items()):
        return stored
    dev = load_split(recipe, "dev", tokenizer)
    decisions = {}
    for name, task in asked.items():
        labels = dev[name].labels
        assert labels is not None, f"{name} dev: labels are read"
        outputs = inference.outputs(task, dev[name].tokens, title=f"calibrating {name}")
        decisions[name] = Decision.fitted(task, outputs.double().numpy(), task.target.gold(labels))
        log.info("%s: chosen on %d dev rows: %s", name, decisions[name].rows, describe(task, decisions[name]))
    write_decisions(checkpoint, decisions)
    return decisions


def describe(task: Task, decision: Decision) -> str:
    """Write what was chosen for a task, in one line."""
    parts = []
    if decision.calibration == "temperature":
        parts.append(f"temperature {1 / decision.scale[0]:.3g}")
    if decision.calibration == "platt":
        names = task.target.classes if task.target.many else task.target.classes[1:]
        pairs = zip(names, decision.scale, decision.shift, strict=True)
        parts += [f"{name}: logit × {scale:.3g} {shift:+.3g}" for name, scale, shift in pairs]
    if isinstance(decision.threshold, str):
        names = task.target.classes if task.target.many else task.target.classes[1:]
        shown = ", ".join(f"{name} {value:.3f}" for name, value in zip(names, decision.thresholds, strict=True))
        parts.append(f"thresholds by {decision.threshold}: {shown}")
    return "; ".join(parts)


def warn_of_missing(tasks: Mapping[str, Task], decisions: Mapping[str, Decision]) -> None:
    """Warn of tasks that ask for calibration or thresholds which this checkpoint does not have yet."""
    missing = [name for name, task in tasks.items() if needs_rows(task) and name not in decisions]
    if missing:
        log.warning(
            "%s: calibration and thresholds have not been chosen for this checkpoint; run: palbert evaluate RUN "
            "--checkpoint NAME",
            ", ".join(missing),
        )
