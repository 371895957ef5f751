"""Fingerprint: what a run is made of, wherever its files lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from palbert.build.teachers import teachers_sha256
from palbert.data.readers import resolve_files
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import resolve_encoder, weight_files, weights_sha256
from palbert.recipe.schema import Recipe
from palbert.reproduction.table import Result
from palbert.runtime.files import sha256

NOT_TRAINED_ON = {"seed", "run", "description", "provenance", "data"}
"""Parts of a recipe that do not change what is trained, or are in others; the seed is told apart by itself."""


def fingerprint(recipe: Recipe) -> str:
    """Hash every setting that changes what is trained, but the seed: runs that share it are one run.

    Files, encoders and teachers count by their content: results stay valid where a folder was moved, and do not where
    a file was changed. A setting that is as it would be anyway does not count, so that settings to come change nothing.
    """
    settings = recipe.model_dump(mode="json", exclude=NOT_TRAINED_ON, exclude_defaults=True)
    taught_by = teachers_sha256(recipe)
    for task in settings["tasks"].values():
        task["teachers"] = [taught_by[run] for run in task.pop("teachers", ())]
        if not any(kind.startswith("test") for kind in task.get("drop_overlap", ())):
            task.pop("test", None)  # nothing is trained or chosen on it
        for part in (task, *task.get("extra", {}).values()):
            for source in (source for split in ("train", "dev", "test") for source in part.get(split, ())):
                source["path"] = [_hashed(file) for file in resolve_files(source["path"])]
    if recipe.pretraining:
        settings["pretraining"]["text"] = [_hashed(Path(path)) for path in recipe.pretraining.text]
    settings["encoder"] = {**settings.get("encoder", {}), "name": _encoder(resolve_encoder(recipe.encoder.name))}
    settings["order"] = list(recipe.sets)  # in which heads draw their first weights, and some samplers go
    settings["precision"] = recipe.run.precision
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def difference(recipe: Recipe, result: Result) -> str:
    """Say what a result was made with that is not a recipe's own: another encoder, other files, or other settings."""
    if result["encoder"]["sha256"] != weights_sha256(resolve_encoder(recipe.encoder.name)):
        return f"another encoder, {result['encoder']['name']}"
    sources = [source for task in recipe.sets.values() for source in (*task.train, *task.dev)]
    present = {_hashed(file) for source in sources for file in resolve_files(source.path)}
    changed = [name for name, former in result["data"]["files"].items() if former not in present]
    return f"another content of {', '.join(changed)}" if changed else "other settings"


def _encoder(folder: Path) -> list[str]:
    """Hash weights, configuration and tokenizer, whatever files hold them."""
    others = [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".txt")]
    tokenizer = _tokenizer_as_it_is(folder, _states(others))
    return [_hashed(*weight_files(folder)), _hashed(folder / "config.json"), tokenizer]


def _hashed(*paths: Path) -> str:
    return _hashed_as_they_are(paths, _states(paths))


def _states(paths: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    """Return what tells whether files are as they were; tables ask for the same ones again and again."""
    return tuple((state.st_mtime_ns, state.st_size) for state in (path.stat() for path in paths))


@cache
def _tokenizer_as_it_is(folder: Path, states: tuple[tuple[int, int], ...]) -> str:
    return TextTokenizer.from_folder(folder).sha256


@cache
def _hashed_as_they_are(paths: tuple[Path, ...], states: tuple[tuple[int, int], ...]) -> str:
    return sha256(*paths)
