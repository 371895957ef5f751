"""Answers as plain data: what a program without palbert needs to turn a head's outputs into answers."""

from __future__ import annotations

import logging
from typing import Any

from palbert.inference.decisions import Decision
from palbert.inference.onnx_graph import output_name
from palbert.targets import Target
from palbert.targets.binary import Binary
from palbert.targets.classes import Classes
from palbert.targets.multilabel import Multilabel
from palbert.targets.number import Number
from palbert.tasks.spec import Task

KINDS: dict[type[Target], str] = {
    Binary: "binary",
    Classes: "classes",
    Multilabel: "multilabel",
    Number: "number",
}
"""What programs are told about the answers of palbert's targets."""

log = logging.getLogger(__name__)


def describe_answers(task: Task, decision: Decision) -> dict[str, Any]:
    """Return how a task's texts become a sequence, and its outputs an answer, as values that JSON can hold.

    Answers are "classes" (a softmax), "binary" (one sigmoid), "multilabel" (one sigmoid per class), "number", or
    "outputs" for a target from outside palbert, whose outputs are then given as they are.
    """
    kind = kind_of(task.target)
    if kind == "outputs":
        log.warning(
            "tasks.%s: the target '%s' is not palbert's own, so the export gives the head's outputs as they are.",
            task.name,
            task.target.name,
        )
    return {
        "texts": len(task.text),
        "siamese": task.siamese,
        "max_length": task.max_length,
        "output": output_name(task.name),
        "answer": kind,
        "classes": list(task.target.classes),
        "range": None if task.target.range is None else list(task.target.range),
        "scale": list(decision.scale) or [1.0],
        "shift": list(decision.shift) or [0.0],
        "thresholds": thresholds_of(task, decision),
    }


def kind_of(target: Target) -> str:
    """Return what programs are told about a target: "outputs" where it decodes them in a way of its own."""
    for known, kind in KINDS.items():
        same = type(target).decode is known.decode and type(target).answer is known.answer
        if same and getattr(type(target), "decide", None) is getattr(known, "decide", None):
            return kind
    return "outputs"


def thresholds_of(task: Task, decision: Decision) -> list[float]:
    """Return the threshold of each yes-or-no decision; none for other answers."""
    if decision.thresholds:
        return list(decision.thresholds)
    target = task.target
    if isinstance(target, Multilabel):
        return [float(value) for value in target.thresholds]
    return [0.5] if target.yes_or_no else []
