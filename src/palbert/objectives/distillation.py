"""Distillation: learn from the outputs of models trained earlier, per task (Liu et al. 2019, arXiv:1904.09482)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from palbert.batch import PackedBatch
from palbert.errors import PalbertError
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Pass, Term
from palbert.objectives.row_losses import part_loss
from palbert.objectives.supervised import mean
from palbert.options import check_number


class Distillation(Term):
    """(1 − w) L(labels) + w L(teachers), for the tasks that have teachers.

    L(teachers) is the target's soft loss: T² · cross-entropy with the mean of the teachers' probabilities at
    temperature T (Hinton et al. 2015, arXiv:1503.02531, section 2), or the squared distance from the mean of their
    numbers. w = ½ and T = 1 give the average of both losses as in arXiv:1904.09482. Single-task teachers and a student
    that learns all tasks are also the setting of arXiv:1907.04829.

    Weights of rows and classes apply to L(labels) alone: a teacher has learned from rows of its own.

    The teachers' outputs for all training rows are computed before training, without dropout, so a step costs nothing
    more.
    """

    def __init__(self, goals: Mapping[str, Goal], *, weight: float = 0.5, temperature: float = 1.0) -> None:
        taught = {name: goal for name, goal in goals.items() if goal.has_teachers}
        # 0: labels only; 1: teachers only.
        super().__init__(taught, weight=check_number("weight", weight, least=0, most=1))
        self.temperature = check_number("temperature", temperature, above=0)
        if not taught:
            raise PalbertError("none of its tasks has teachers.", hint='Set tasks.<name>.teachers = ["runs/…"].')

    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return what has to be added to the loss on the labels to get the weighted mean of both."""
        values = {}
        for name, part in batch.parts.items():
            goal, teachers = self.goals[name], part.teacher_outputs
            assert teachers is not None, f"{name}: teachers' outputs"
            differences = [
                goal.target.soft_loss(outputs, teachers, temperature=self.temperature)
                - part_loss(goal.loss, outputs, part, name=name)
                for outputs in forward_pass.answers(name)
            ]
            values[name] = self.weight * mean(differences)
        return values
