"""Origin: from which runs, by which verb, a model was made that was not trained from a pretrained encoder alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palbert.model.pretrained import weights_sha256


@dataclass(frozen=True)
class Ingredient:
    """A checkpoint that a model was made from."""

    checkpoint: str
    """Its folder."""
    sha256: str
    """The hash of its weights."""

    @classmethod
    def of(cls, checkpoint: Path) -> Ingredient:
        """Name a checkpoint by its content, too."""
        return cls(str(checkpoint.resolve()), weights_sha256(checkpoint))


@dataclass(frozen=True)
class Origin:
    """What a checkpoint and a report say about where a model comes from."""

    verb: str
    """The command that has made it: add-task, remove-task or merge."""
    checkpoints: Sequence[Ingredient]
    """What it was made from."""
    tasks: Sequence[str] = field(default_factory=list)
    """The tasks that were added or removed."""
