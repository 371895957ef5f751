"""Predict: load a run, and predict for texts or pairs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from palbert.build import Machine, OpenedCheckpoint, build_inference, open_checkpoint, prepare_for_inference
from palbert.data.collate import count_truncated
from palbert.errors import DataError, did_you_mean
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task

Text = str | tuple[str, str]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prediction:
    """The prediction of a task for one text or pair."""

    answer: Any
    """As the task's target gives it: a class name, a number, or a list of class names."""
    probabilities: dict[str, float] | None = None
    """The probability of each class."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        shares = self.probabilities
        return {"prediction": self.answer} | ({"probabilities": shares} if shares is not None else {})


def load(
    run: str | Path,
    *,
    checkpoint: str | None = None,
    device: str = "auto",
    precision: Literal["auto", "fp32", "bf16", "int8"] = "auto",
) -> Predictor:
    """Load a run's best checkpoint, or the named one, for prediction."""
    machine = Machine.of(device, precision)
    return Predictor(open_checkpoint(RunFolder(Path(run)).checkpoint(checkpoint), machine), machine)


class Predictor:
    """A trained model that predicts for all of its tasks."""

    def __init__(self, opened: OpenedCheckpoint, machine: Machine) -> None:
        self.tasks = opened.tasks
        self.tokenizer = opened.tokenizer
        model = prepare_for_inference(opened.model, machine)
        self.inference = build_inference(model, tokenizer=opened.tokenizer, machine=machine)

    def task(self, name: str) -> Task:
        """Return a task by name."""
        if name not in self.tasks:
            raise DataError(f"Unknown task '{name}'.", hint=did_you_mean(name, self.tasks))
        return self.tasks[name]

    def predict(self, task: str, texts: Sequence[Text]) -> list[Prediction]:
        """Predict for texts, or for pairs of texts if the task takes pairs."""
        spec = self.task(task)
        columns = _columns(spec, texts)
        if not columns[0]:
            return []
        tokens = tuple(self.tokenizer(column) for column in columns)
        cut = count_truncated(tokens, self.tokenizer.template, max_length=spec.max_length, siamese=spec.siamese)
        if cut:
            log.warning("%d of %d rows were longer than %d tokens and were truncated", cut, len(texts), spec.max_length)
        decoded, target = self.inference.answer(spec, tokens), spec.target
        answers = [target.answer(predicted) for predicted in decoded.predicted]
        if decoded.probabilities is None:
            return [Prediction(answer) for answer in answers]
        return [
            Prediction(answer, {name: float(share) for name, share in zip(target.classes, shares, strict=True)})
            for answer, shares in zip(answers, decoded.probabilities, strict=True)
        ]


def _columns(task: Task, texts: Sequence[Text]) -> list[list[str]]:
    """Turn rows into columns, and check their shape."""
    if isinstance(texts, str):
        raise DataError(f"Task '{task.name}' takes a list, found one text.", hint=f"Write [{texts!r:.40}].")
    wanted = "a text" if task.kind == "single" else "a pair of texts"
    rows: list[tuple[str, ...]] = []
    for number, text in enumerate(texts):
        row = tuple(text) if isinstance(text, tuple | list) else (text,)
        if len(row) != len(task.text) or not all(isinstance(item, str) for item in row):
            hint = (
                "In the command: --pair FIRST SECOND, or lines of two texts with a tab between them."
                if task.kind == "pair" and len(row) == 1
                else None
            )
            raise DataError(f"Task '{task.name}' takes {wanted} per row; row {number} is {text!r:.60}.", hint=hint)
        rows.append(row)
    return [[row[side] for row in rows] for side in range(len(task.text))]
