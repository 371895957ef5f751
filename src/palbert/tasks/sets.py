"""SetSpec: one training set of a task, and DataFiles: how files are read as rows. Values, no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from palbert.readers import Dialect
from palbert.targets import Target
from palbert.tasks.choices import Component, make_target
from palbert.tasks.held_out import HeldOut
from palbert.tasks.sources import ExtraSet, Labels, Source, Split
from palbert.tasks.spec import Task

PAIR_CLASSES = ("contradiction", "entailment")
PAIR_LABELS: Labels = {"entailment": 1, "contradiction": 0, "neutral": "drop", "-": "drop"}
"""How the labels of pairs are read from which triplets are made, unless the set has a mapping of its own."""


@dataclass(frozen=True)
class Marked:
    """The rows of a file whose column says that they belong to one of these splits."""

    column: str
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class DataFiles:
    """Files that are read as one data set, and how: those of one split of a task, or of one of its extra sets."""

    task: str
    split: Split
    sources: tuple[Source, ...]
    """The files; what one leaves open is as below."""
    text: tuple[str, ...]
    """Text columns."""
    label: str
    """Label column."""
    labels: Labels | None
    """Label mapping."""
    id: str
    """Row id column."""
    dialect: Dialect
    """How the files write their rows."""
    bad_rows: Literal["error", "drop"]
    """What to do with rows that lack a text or a label."""
    target: Target
    """What a label is."""
    row_weight: str | None = None
    """Column of row weights; none is read unless it is named."""
    labelled: bool = True
    """Whether labels are read; triplets of three columns have none."""
    marked: Marked | None = None
    """Which rows of the files belong to the data set; all of them unless given."""
    held_out: HeldOut | None = None
    """How the rows are divided into train and dev, of which `split` names one; not at all unless given."""

    @property
    def labels_optional(self) -> bool:
        """Whether files may lack the label column."""
        return self.split == "test"


@dataclass(frozen=True)
class SetSpec:
    """One training set as a recipe describes it, before its rows are read."""

    name: str
    """The task's name for its own set, and for an extra one both names, as in "quora+snli"; never parsed."""
    task: Task
    """The task whose pooling, adapter and head the rows go through."""
    place: str
    """Where the recipe describes the set, for messages: "tasks.quora" or "tasks.quora.extra.snli"."""
    files: DataFiles
    """The training files."""
    max_length: int
    """Tokens per sequence, special tokens included."""
    batch_size: int | None
    """Examples per step; the recipe's `training.batch_size` unless given."""
    factor: float = 1.0
    """Factor on how often the set is drawn, with samplers that draw."""
    triplets: bool = False
    """Whether the rows are triplets, which terms contrast and no head answers."""
    swapped: bool = False
    """Whether rows come with copies that name another group of people; a batch has both or none."""

    @property
    def siamese(self) -> bool:
        """Whether each text of a row is a sequence of its own."""
        return self.triplets or self.task.siamese

    @property
    def joint(self) -> bool:
        """Whether a row is a pair in one sequence."""
        return self.task.kind == "pair" and not self.siamese


def files_of(task: Task, split: Split) -> DataFiles:
    """Return the files of a split of a task, and which of their rows belong to it."""
    sources, marked, held_out = getattr(task, split), None, None
    if split == "train":
        held_out = None if task.train_on_dev else task.held_out
        sources += task.dev if task.train_on_dev else ()
    elif split == "dev" and task.held_out:
        sources, held_out = task.train, task.held_out
    if task.split and not getattr(task, split):  # from the training files
        sources, marked = task.train, Marked(task.split, ("train",) if held_out else (split,))
    elif task.split and split == "train":
        marked_dev = task.train_on_dev and not task.dev and not task.held_out
        marked = Marked(task.split, ("train", "dev") if marked_dev else ("train",))
    return DataFiles(
        task=task.name,
        split=split,
        sources=sources,
        text=task.text,
        label=task.label,
        labels=task.labels,
        id=task.id,
        dialect=task.dialect,
        bad_rows=task.bad_rows,
        target=task.target,
        row_weight=task.row_weight if split == "train" or held_out else None,
        marked=marked,
        held_out=held_out,
    )


def sets_of(task: Task) -> dict[str, SetSpec]:
    """Return the training sets of a task by name, its own first."""
    own = SetSpec(
        name=task.name,
        task=task,
        place=f"tasks.{task.name}",
        files=files_of(task, "train"),
        max_length=task.max_length,
        batch_size=task.batch_size,
    )
    extra = [_extra_set(task, name, each) for name, each in task.extra.items()]
    return {each.name: each for each in (own, *extra)}


def _extra_set(task: Task, name: str, extra: ExtraSet) -> SetSpec:
    triplets, swapped = extra.form == "triplets", extra.form == "identity-swaps"
    files = _triplet_files(task, extra) if triplets else _with_own(files_of(task, "train"), extra)
    if swapped and extra.train == task.train:  # without the rows that belong to dev
        own = files_of(task, "train")
        files = replace(files, sources=own.sources, marked=own.marked, held_out=own.held_out)
    return SetSpec(
        name=f"{task.name}+{name}",
        task=task,
        place=f"tasks.{task.name}.extra.{name}",
        files=files,
        max_length=extra.max_length or task.max_length,
        batch_size=extra.batch_size or task.batch_size,
        factor=extra.factor,
        triplets=triplets,
        swapped=swapped,
    )


def _with_own(files: DataFiles, extra: ExtraSet) -> DataFiles:
    """Return the files of an extra set, with what it has in place of the settings of others."""
    settings = {key: getattr(extra, key) for key in ("text", "label", "labels", "bad_rows", "row_weight")}
    given = {key: value for key, value in settings.items() if value is not None}
    dialect = extra.dialect_over(files.dialect)
    return replace(files, sources=extra.train, dialect=dialect, marked=None, held_out=None, **given)


def _triplet_files(task: Task, extra: ExtraSet) -> DataFiles:
    """Return the files of a set of triplets: three columns without labels, or labelled pairs to make triplets from."""
    columns = extra.triplet_columns[0]
    target = make_target(Component(name="binary"), classes=PAIR_CLASSES, range=None)
    pairs = replace(files_of(task, "train"), label="label", labels=PAIR_LABELS, target=target, row_weight=None)
    return replace(_with_own(pairs, extra), text=columns, labelled=len(columns) == 2)
