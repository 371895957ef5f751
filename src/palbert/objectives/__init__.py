"""Objectives: the base class of terms added to the supervised losses, and what terms are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn

from palbert.batch import PackedBatch, repeat_of
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.options import check_number
from palbert.runtime.distributed import Ranks
from palbert.targets import Target
from palbert.tasks.sets import SetSpec

Loss = Callable[..., Tensor]
"""Called with outputs and labels, it returns the mean over the rows; one that takes `reduction="none"`, each row's."""


@dataclass(frozen=True)
class Goal:
    """What a term knows about a training set."""

    target: Target
    """What an answer is."""
    loss: Loss
    """The supervised loss, called with outputs and labels."""
    task: str = field(kw_only=True)
    """The task that the set belongs to."""
    dropout: float = 0.0
    """Dropout in front of the head."""
    joint: bool = False
    """Whether the set's sequences are joint pairs."""
    has_teachers: bool = False
    """Whether the task has teachers, whose outputs are part of its batches."""
    has_swaps: bool = False
    """Whether every row of a batch is followed by its copy that names another group of people."""

    @classmethod
    def of(cls, spec: SetSpec, loss: Loss) -> Goal:
        """Return what terms need to know about a set."""
        task = spec.task
        return cls(
            target=spec.files.target,
            loss=loss,
            task=task.name,
            dropout=task.dropout,
            joint=spec.joint,
            has_teachers=bool(task.teachers),
            has_swaps=spec.swapped,
        )


@dataclass(frozen=True)
class Pass:
    """The vectors and outputs of a pass over a batch, by training set."""

    vectors: Mapping[str, Tensor]
    """Pooled vectors, (sequences, hidden)."""
    outputs: Mapping[str, Tensor]
    """Outputs of the heads, (examples, outputs)."""
    second: Pass | None = None
    """The same texts under other dropout masks, for the sets of terms that compare the two."""
    averaged: Collection[str] = ()
    """Sets whose loss is the mean over both."""

    @classmethod
    def of(
        cls,
        model: MultiTaskModel,
        batch: PackedBatch,
        *,
        repeated: Collection[str] = (),
        averaged: Collection[str] = (),
    ) -> Pass:
        """Run the model over a batch.

        Args:
            model: The model under training.
            batch: The batch.
            repeated: Parts that are computed twice in the same pass, with different dropout masks.
            averaged: Those of them whose loss is the mean over both.
        """
        wide = batch.with_repeats(repeated)
        vectors = model.vectors(wide)
        outputs = model.answers(wide, vectors)
        if wide is batch:
            return cls(vectors, outputs)

        def named(values: Mapping[str, Tensor], name_of: Callable[[str], str]) -> dict[str, Tensor]:
            return {name: values[name_of(name)] for name in batch.parts if name_of(name) in values}

        second = cls(named(vectors, repeat_of), named(outputs, repeat_of))
        return cls(named(vectors, str), named(outputs, str), second=second, averaged=averaged)

    def answers(self, name: str) -> list[Tensor]:
        """Return the outputs that a set's labels are compared with: of one pass, or of both."""
        second = [self.second.outputs[name]] if self.second is not None and name in self.averaged else []
        return [self.outputs[name], *second]


class Term(nn.Module, ABC):
    """A term added to the supervised losses of some training sets: those with labels, or those of triplets.

    A term is made as `Class(goals, **options)`. Its parameters are trained; they and its buffers are saved in
    `checkpoints/last`, not in the model. A term of weight 0 is not computed at all.
    """

    triplets: ClassVar[bool] = False
    """Whether the term is for sets of triplets; their parts have vectors, and neither outputs nor labels."""
    averages: ClassVar[bool] = False
    """Whether the supervised loss is the mean over `forward_pass` and `forward_pass.second`."""

    def __init__(self, goals: Mapping[str, Goal], *, weight: float = 1.0) -> None:
        super().__init__()
        self.goals = dict(goals)
        self.weight = check_number("weight", weight, least=0)

    @property
    def compares(self) -> bool:
        """Whether the term needs `forward_pass.second`: the same texts under other dropout masks."""
        return False

    def prepare(self, model: MultiTaskModel) -> None:
        """Called once before training: refuse the model, or create parameters of its size. Optional."""

    def join(self, ranks: Ranks) -> None:
        """Called once before training with several processes that make the same calls in every step. Optional."""

    def after_step(self, model: MultiTaskModel) -> None:
        """Called after each step of the optimizer. Optional."""

    @abstractmethod
    def values(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return the term of each set in the batch, weight included, as a mean over the batch's rows.

        Args:
            model: The model under training.
            batch: The parts of the term's own sets.
            forward_pass: The vectors and outputs of the supervised pass, for these sets and others.
        """

    def forward(self, model: MultiTaskModel, batch: PackedBatch, forward_pass: Pass) -> dict[str, Tensor]:
        """Return the term of each set, times the share of the step's rows that this batch holds."""
        if not any(name in self.goals for name in batch.parts):
            return {}
        values = self.values(model, batch.only(self.goals), forward_pass)
        if not isinstance(values, Mapping):
            raise RecipeError(f"{type(self).__name__}.values() gives {values!r}; expected a table by training set.")
        for name, value in values.items():
            check_loss(f"{type(self).__name__}.values()", name, value, known=batch.parts)
        return {name: value * batch.parts[name].share for name, value in values.items()}


def check_loss(whose: str, name: str, value: Tensor, *, known: Collection[str]) -> None:
    """Raise RecipeError unless a loss is one number, for a set of the batch."""
    if name not in known:
        raise RecipeError(f"{whose} has a value for '{name}', which is not in the batch: {', '.join(known)}.")
    if not isinstance(value, Tensor) or value.ndim:
        found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise RecipeError(f"{whose} gives {found} for '{name}'; expected one number, a mean over the rows.")


def check_trained(name: str, model: MultiTaskModel, goals: Mapping[str, Goal]) -> None:
    """Raise RecipeError for tasks that have nothing to train in front of their heads."""

    def learns(task: str) -> bool:
        own = [model.adapters[model.adapter_of[task]]] if task in model.adapter_of else []
        modules = (model.encoder, model.poolings[task], *own)
        return any(parameter.requires_grad for module in modules for parameter in module.parameters())

    idle = sorted({goal.task for goal in goals.values() if not learns(goal.task)})
    if idle:
        raise RecipeError(
            f"objectives: {name} trains the encoder, which is frozen; {', '.join(idle)} has no trained adapter.",
            hint=f"Train the encoder (encoder.frozen, training.trains), leave {name} out, or set its tasks.",
        )
