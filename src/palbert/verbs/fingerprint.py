"""Fingerprint: what a run is made of, wherever its files lie."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from palbert.build.teachers import teachers_sha256
from palbert.data.readers import resolve_files
from palbert.model.pretrained import resolve_encoder, weight_files, weights_sha256
from palbert.recipe.schema import Recipe
from palbert.runtime.files import sha256

NOT_TRAINED_ON = {"seed", "run", "description", "provenance", "data"}
"""Parts of a recipe that do not change what is trained, or are in others; the seed is told apart by itself."""


def fingerprint(recipe: Recipe) -> str:
    """Hash every setting that changes what is trained, but the seed: runs that share it are one run.

    Files, encoders and teachers count by their content: results stay valid where a folder was moved, and do not where
    a file was changed. A setting that is as it would be anyway does not count, so that settings to come change nothing.
    """
    settings = recipe.model_dump(mode="json", exclude=NOT_TRAINED_ON, exclude_defaults=True)
    for task in settings["tasks"].values():
        task.pop("teachers", None)
        if not any(kind.startswith("test") for kind in task.get("drop_overlap", ())):
            task.pop("test", None)  # nothing is trained or chosen on it
    content = {
        "encoder": _encoder(resolve_encoder(recipe.encoder.name)),
        "teachers": list(teachers_sha256(recipe).values()),
        "texts": [_file(Path(path)) for path in (recipe.pretraining.text if recipe.pretraining else ())],
    }
    settings.setdefault("encoder", {}).pop("name", None)
    settings.get("pretraining", {}).pop("text", None)
    return hashlib.sha256(json.dumps([_by_content(settings), content], sort_keys=True).encode()).hexdigest()


def _by_content(settings: Any) -> Any:
    """Put the hashes of files in the place of their paths."""
    if isinstance(settings, dict):
        return {
            key: [_file(file) for file in resolve_files(value)] if key == "path" else _by_content(value)
            for key, value in settings.items()
        }
    return [_by_content(value) for value in settings] if isinstance(settings, list) else settings


def _file(path: Path) -> str:
    state = path.stat()
    return _file_as_it_is(path, state.st_mtime_ns, state.st_size)


@cache
def _file_as_it_is(path: Path, changed: int, size: int) -> str:
    return sha256(path)


def _encoder(folder: Path) -> str:
    return _encoder_as_it_is(folder, tuple(file.stat().st_mtime_ns for file in weight_files(folder)))


@cache
def _encoder_as_it_is(folder: Path, changed: tuple[int, ...]) -> str:
    return weights_sha256(folder)
