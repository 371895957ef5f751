"""Decisions: how a task's outputs become probabilities and answers, as dev has shown to be best."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.errors import CheckpointError
from palbert.inference.calibration import fit_calibration
from palbert.inference.thresholds import best_thresholds
from palbert.metrics import Values
from palbert.runtime.checksums import add_file, checked
from palbert.runtime.json_objects import read_object
from palbert.targets import Decoded, Target
from palbert.tasks.spec import Task

FILE = "decisions.json"
FORMAT = 1
FOLDS = 5
"""Into how many parts rows are cut to score decisions on rows that did not choose them."""


@dataclass(frozen=True)
class Decision:
    """What happens between a head's outputs and an answer; by default, nothing but the target's own decoding."""

    calibration: str = "none"
    """How scale and shift were found."""
    scale: tuple[float, ...] = ()
    """What outputs are multiplied by: one number for all or one per output; none leaves outputs as they are."""
    shift: tuple[float, ...] = ()
    """What is added to them then."""
    threshold: str | float | None = None
    """By which score the thresholds were chosen, or the threshold that the recipe gives."""
    thresholds: tuple[float, ...] = ()
    """The probability above which each yes-or-no decision is yes; the target's own unless given."""
    rows: int = 0
    """How many dev rows chose all this; 0 if none did."""

    @classmethod
    def of(cls, task: Task) -> Decision:
        """Return what a task's settings say without any rows: at most a threshold that is a number."""
        if not isinstance(task.threshold, float):
            return cls()
        count = len(task.target.classes) if task.target.many else 1
        return cls(threshold=task.threshold, thresholds=(task.threshold,) * count)

    @classmethod
    def fitted(cls, task: Task, outputs: NDArray[np.float64], gold: Values) -> Decision:
        """Return what serves a task best on labelled rows.

        Args:
            task: Says what is wanted, by `calibration` and `threshold`.
            outputs: The head's outputs, (rows, outputs).
            gold: The labels.
        """
        decision = replace(cls.of(task), rows=len(outputs), calibration=task.calibration)
        if task.calibration != "none":
            scale, shift = fit_calibration(task.calibration, task.target, outputs, gold)
            decision = replace(decision, scale=tuple(scale.tolist()), shift=tuple(shift.tolist()))
        if isinstance(task.threshold, str):
            probabilities = decision.decode(task.target, torch.from_numpy(outputs)).probabilities
            assert probabilities is not None
            yes = probabilities if task.target.many else probabilities[:, 1:]
            chosen = best_thresholds(yes, gold.reshape(yes.shape), task.threshold)
            decision = replace(decision, threshold=task.threshold, thresholds=chosen)
        return decision

    def calibrated(self, outputs: Tensor) -> Tensor:
        """Return the outputs with scale and shift, (rows, outputs), differentiably."""
        if not self.scale:
            return outputs
        scale, shift = (outputs.new_tensor(values) for values in (self.scale, self.shift))
        return outputs * scale + shift

    def decode(self, target: Target, outputs: Tensor) -> Decoded:
        """Return the predictions and probabilities for a head's outputs, (rows, outputs)."""
        decoded = target.decode(self.calibrated(outputs.double().cpu()) if self.scale else outputs)
        if not self.thresholds or decoded.probabilities is None:
            return decoded
        return replace(decoded, predicted=target.decide(decoded.probabilities, np.array(self.thresholds)))

    def uncalibrated(self) -> Decision:
        """Return the same decision on probabilities as the head gives them."""
        return replace(self, calibration="none", scale=(), shift=())


def needs_rows(task: Task) -> bool:
    """Whether a task asks for something that dev has to choose."""
    return task.calibration != "none" or isinstance(task.threshold, str)


def fits(decision: Decision, task: Task) -> bool:
    """Whether a decision is what a task asks for."""
    return (decision.calibration, decision.threshold) == (task.calibration, task.threshold)


def cross_fitted(task: Task, outputs: NDArray[np.float64], gold: Values, *, folds: int = FOLDS) -> Decoded:
    """Decode rows with decisions that other rows have chosen: each fold with those of the other folds."""
    order = np.random.default_rng(0).permutation(len(gold))
    if gold.ndim == 1:  # folds with the same shares of classes
        order = order[np.argsort(gold[order], kind="stable")]
    fold = np.empty(len(gold), dtype=np.int64)
    fold[order] = np.arange(len(gold)) % folds
    predicted, probabilities = np.zeros_like(gold), None
    for number in range(folds):
        inside = fold == number
        if not inside.any():
            continue
        decision = Decision.fitted(task, outputs[~inside], gold[~inside])
        decoded = decision.decode(task.target, torch.from_numpy(outputs[inside]))
        assert decoded.probabilities is not None
        if probabilities is None:
            probabilities = np.zeros((len(gold), decoded.probabilities.shape[1]))
        predicted[inside], probabilities[inside] = decoded.predicted, decoded.probabilities
    return Decoded(predicted, probabilities)


def write_decisions(folder: Path, decisions: Mapping[str, Decision]) -> None:
    """Write decisions next to the model of a checkpoint."""
    tasks = {name: asdict(decision) for name, decision in decisions.items()}
    add_file(folder, FILE, json.dumps({"format": FORMAT, "tasks": tasks}, indent=1, ensure_ascii=False) + "\n")


def read_decisions(folder: Path) -> dict[str, Decision]:
    """Return the decisions of a checkpoint by task; none where nothing was chosen."""
    path, hint = folder / FILE, "Remove it, and choose again with: palbert evaluate RUN"
    if not path.is_file():  # where a task asks for them, `warn_of_missing` says so
        return {}
    try:
        checked(path)
    except CheckpointError as error:
        raise CheckpointError(error.message, hint=hint) from error
    content = read_object(path, raises=CheckpointError, hint=hint)
    try:
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, this palbert reads {FORMAT}")
        return {name: _decision(values) for name, values in content["tasks"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged: {error}.", hint=hint) from error


def _decision(values: Mapping[str, Any]) -> Decision:
    lists = {name: tuple(map(float, values[name])) for name in ("scale", "shift", "thresholds")}
    return Decision(**{**values, **lists})
