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
    """Return a checkpoint's description as others may see it: its origin names no folders of this machine."""
    if "origin" not in description:
        return dict(description)
    return {**description, "origin": public_origin(description["origin"])}


def public_origin(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return an origin as others may see it: runs by name, without the folders that they are in.

    Raises:
        CheckpointError: The origin is damaged.
    """
    try:
        checkpoints = [{**each, "checkpoint": _public_place(each["checkpoint"])} for each in origin["checkpoints"]]
        return {**origin, "checkpoints": checkpoints}
    except (TypeError, KeyError) as error:
        raise CheckpointError(
            "palbert.json: origin: expected the checkpoints that the model was made from.",
            hint="Make the run again, or remove its origin and the line of palbert.json in palbert.sha256.",
        ) from error


def described_origin(origin: Mapping[str, Any]) -> str:
    """Say in a few words what a model was made from, without the folders of this machine."""
    public = public_origin(origin)
    tasks = f" ({', '.join(public['tasks'])})" if public["tasks"] else ""
    return f"{public['verb']}{tasks}, from {', '.join(each['checkpoint'] for each in public['checkpoints'])}"


def _public_place(checkpoint: str) -> str:
    """Return `run/checkpoints/best` for a checkpoint of a run, and the name of any other folder."""
    place = PurePath(checkpoint)
    return "/".join(place.parts[-3:]) if place.parent.name == "checkpoints" else place.name
