"""Form: one kind of export, what it is made from, and what its check found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from palbert.build import Machine, OpenedCheckpoint
from palbert.errors import DataError, EncoderError, did_you_mean
from palbert.inference.decisions import Decision
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task

Precision = Literal["fp32", "int8"]


@dataclass(frozen=True)
class Source:
    """What is exported: a run or an encoder, opened."""

    place: Path
    """Where the weights are."""
    opened: OpenedCheckpoint
    machine: Machine
    run: RunFolder | None = None
    """The run folder; None for an encoder."""

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks by name."""
        return self.opened.tasks

    def decision(self, task: Task) -> Decision:
        """Return how a task's outputs become answers."""
        return self.opened.decisions.get(task.name) or Decision.of(task)

    def chosen(self, names: Sequence[str]) -> list[Task]:
        """Return the named tasks, all of them if none is named; raise DataError for an unknown one."""
        for name in names:
            if name not in self.tasks:
                raise DataError(f"Unknown task '{name}'.", hint=did_you_mean(name, self.tasks))
        return [task for name, task in self.tasks.items() if not names or name in names]


@dataclass(frozen=True)
class Wanted:
    """What is asked of an export."""

    tasks: tuple[str, ...] = ()
    """The tasks that are named; empty for all of them, or for the encoder."""
    pooling: str | None = None
    """How token states become one vector, for folders of an encoder."""
    without_adapters: bool = False
    """Whether the encoder leaves without its adapters."""
    precision: Precision = "fp32"
    """The numbers in a graph."""


@dataclass(frozen=True)
class Checked:
    """What a library gave, compared with palbert."""

    difference: float
    """The largest difference between a number of the library and palbert's."""
    lines: tuple[str, ...] = ()
    """What else was found, for people."""


class Form(ABC):
    """A kind of export, for one source: `write`, then `check`.

    Args:
        source: The run or the encoder.
        wanted: What is asked.

    Raises:
        DataError: The form cannot hold this model.
    """

    name: ClassVar[str]
    """What `--to` calls it."""
    library: ClassVar[str]
    """What loads it."""
    takes: ClassVar[frozenset[str]] = frozenset()
    """The fields of `Wanted` besides `tasks` that mean something here."""

    def __init__(self, source: Source, wanted: Wanted) -> None:
        self.source = source
        self.wanted = wanted
        refused = [
            name
            for name, default in vars(Wanted()).items()
            if name != "tasks" and name not in self.takes and getattr(wanted, name) != default
        ]
        if refused:
            option = refused[0].replace("_", "-")
            raise DataError(f"--{option} ({refused[0]}) means nothing for --to {self.name}.", hint="Leave it out.")

    @property
    @abstractmethod
    def content(self) -> str:
        """What is in the folder, in a few words."""

    @property
    def pooling(self) -> str:
        """The pooling that the folder has or was checked with; empty for whole models."""
        return ""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write all files into an empty folder."""

    @abstractmethod
    def check(self, folder: Path) -> Checked | None:
        """Load what was written with the library and compare; None if the library is not installed.

        Raises:
            EncoderError: The library gives something else than palbert.
        """

    def origin(self) -> dict[str, Any]:
        """Return what `palbert-export.json` says about the folder besides where it is from."""
        return {}


def one_task(source: Source, wanted: Wanted, form: str) -> Task:
    """Return the only task that is asked for; raise DataError unless it is clear which one."""
    if not source.tasks:
        raise DataError(f"This is an encoder without tasks, and --to {form} needs a task.", hint="Give a run.")
    chosen = source.chosen(wanted.tasks)
    if len(chosen) > 1:
        raise DataError(
            f"--to {form} holds one task, found {', '.join(task.name for task in chosen)}.",
            hint="Name one with --task, or take all of them with --to onnx.",
        )
    return chosen[0]


def compared(
    library: str, what: str, found: NDArray[np.float32], expected: NDArray[np.float32], *, tolerance: float
) -> float:
    """Return the largest difference between two arrays.

    Raises:
        EncoderError: It is larger than `tolerance`, relative to the largest number if that is above 1; or there are
            numbers that are not finite.
    """
    difference = float(np.abs(found - expected).max(initial=0.0)) if found.shape == expected.shape else float("inf")
    if not difference <= tolerance * max(1.0, float(np.abs(expected).max(initial=0.0))):
        raise EncoderError(
            f"{library} gives other {what} than palbert: they differ by up to {difference:.1e}. Nothing was written.",
            hint="This is a bug in palbert, or in the tokenizer's settings; --no-check writes the folder nevertheless.",
        )
    return difference
