"""Origin: from which runs, by which verb, a model was made that was not trained from a pretrained encoder alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from palbert.errors import CheckpointError
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


def public_description(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's description for others: its origin names runs without the folders that they are in."""
    if "origin" not in description:
        return dict(description)
    origin = description["origin"]
    try:
        named = [{**each, "checkpoint": _public_name(each["checkpoint"])} for each in origin["checkpoints"]]
        return {**description, "origin": {**origin, "checkpoints": named}}
    except (TypeError, KeyError) as error:
        raise CheckpointError(
            "palbert.json: origin: expected the checkpoints that the model was made from.",
            hint="Make the run again, or remove its origin and the line of palbert.json in palbert.sha256.",
        ) from error


def _public_name(checkpoint: str) -> str:
    """Return the name of a run and of its checkpoint; of any other folder, its name."""
    path = PurePath(checkpoint)
    return f"{path.parents[1].name}/{path.name}" if path.parent.name == "checkpoints" else path.name
