"""Explaining: which words led to a loaded run's answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.build import Machine, OpenedCheckpoint, open_differentiable
from palbert.errors import DataError, did_you_mean
from palbert.explanations.explained import Explained
from palbert.explanations.explainer import Explainer
from palbert.explanations.explanation import Explanation
from palbert.inference.decisions import Decision
from palbert.inference.evaluator import Inference
from palbert.tasks.spec import Task

if TYPE_CHECKING:
    from palbert.model.multitask import MultiTaskModel


class AnswerExplainer:
    """Explains the answers of a run; a second model, with gradients, is opened when it is first needed.

    Args:
        opened: The checkpoint, whose model may have been prepared for inference.
        inference: What answers.
        machine: Where it does.
    """

    def __init__(self, opened: OpenedCheckpoint, inference: Inference, machine: Machine) -> None:
        self.opened = opened
        self.inference = inference
        self.machine = machine
        self._model: MultiTaskModel | None = None
        self._opening = threading.Lock()

    @property
    def explainer(self) -> Explainer:
        """What explains; made anew each time, since two objects that hold each other would hold the model for long."""
        return Explainer(tokenizer=self.opened.tokenizer, plain=self._plain, differentiable=self._differentiable)

    def prepare(self) -> None:
        """Read what explanations need now: later, the checkpoint may be gone, or be another one."""
        self._open(copy=True)

    def __call__(
        self,
        task: Task,
        columns: Sequence[Sequence[str]],
        outputs: Tensor,
        *,
        target: str | None,
        method: str,
        interactions: bool,
    ) -> list[Explanation]:
        """Explain the answers for rows.

        Args:
            task: The task that answered.
            columns: The texts of all rows, by column.
            outputs: The head's outputs for them, (rows, outputs).
            target: The class to explain; the answer's own unless given.
            method: How, see `palbert.explanations.explainer`.
            interactions: Whether to add those of the words of pairs.
        """
        if interactions and len(columns) != 2:
            raise DataError(f"Task '{task.name}' takes single texts; interactions are those of the words of a pair.")
        names = task.target.explained
        explainer = self.explainer
        return [
            explainer(
                task,
                texts,
                target=names[which],
                number=self._number(task, int(which)),
                method=method,
                with_interactions=interactions,
            )
            for which, texts in zip(self._which(task, outputs, target), zip(*columns, strict=True), strict=True)
        ]

    def _which(self, task: Task, outputs: Tensor, target: str | None) -> NDArray[np.int64]:
        """Return which output of the task is explained, (rows,)."""
        if target is None:
            return task.target.decided(self.inference.decode(task, outputs))
        names = task.target.explained
        if names == ("",):
            raise DataError(f"Task '{task.name}' answers with a number.", hint="Explain it without naming a class.")
        if target not in names:
            raise DataError(f"Task '{task.name}' has no class '{target}'.", hint=did_you_mean(target, names))
        return np.full(len(outputs), names.index(target))

    def _number(self, task: Task, which: int) -> Callable[[Tensor], Tensor]:
        """Return what picks the explained number from outputs: calibrated, as probabilities are."""
        decision = self.inference.decisions.get(task.name) or Decision.of(task)
        return lambda outputs: task.target.log_odds(decision.calibrated(outputs))[:, which]

    def _plain(self, number: Callable[[Tensor], Tensor]) -> Explained:
        return Explained(self.inference.model, number, self.machine.device, self.inference.arithmetic)

    def _differentiable(self, number: Callable[[Tensor], Tensor]) -> Explained:
        """Return the function of a model with gradients, always in float32."""
        return Explained(self._open(), number, self.machine.device)

    def _open(self, *, copy: bool = False) -> MultiTaskModel:
        """Return the model with gradients; open it first if it is not yet open."""
        with self._opening:
            if self._model is None:
                with torch.inference_mode(False):  # weights that are loaded inside it could not be used outside
                    self._model = open_differentiable(self.opened, self.machine, copy=copy)
            return self._model
