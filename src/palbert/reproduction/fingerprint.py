"""Fingerprints: a hash of everything that a run is made from, wherever its files are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from palbert.build.teachers import teachers_sha256
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import resolve_encoder, weights_sha256
from palbert.model.weight_files import weight_files
from palbert.readers import resolve_files
from palbert.recipe.schema import Recipe
from palbert.reproduction.row_results import RowResult
from palbert.runtime.files import sha256
from palbert.tasks.sets import files_of

NOT_TRAINED_ON = {"seed", "run", "description", "provenance", "data"}
"""Parts of a recipe that do not change training, or that other parts cover; results keep the seed separately."""


def fingerprint(recipe: Recipe) -> str:
    """Hash every setting that changes training, except the seed; runs with equal fingerprint and seed are one run.

    Files, encoders and teachers count by content: results stay valid if a folder is moved, but not if a file changes.
    Settings at their default do not count, so that future settings do not invalidate old results.
    """
    settings = recipe.model_dump(mode="json", exclude=NOT_TRAINED_ON, exclude_defaults=True)
    taught_by = teachers_sha256(recipe)
    for task in settings["tasks"].values():
        task["teachers"] = [taught_by[run] for run in task.pop("teachers", ())]
        if not any(kind.startswith("test") for kind in task.get("drop_overlap", ())):
            task.pop("test", None)  # neither training nor model selection uses it
        for part in (task, *task.get("extra", {}).values()):
            for source in (source for split in ("train", "dev", "test") for source in part.get(split, ())):
                source["path"] = [_sha256(file) for file in resolve_files(source["path"])]
    if recipe.pretraining:
        settings["pretraining"]["text"] = [_sha256(Path(path)) for path in recipe.pretraining.text]
    settings["encoder"] = {**settings.get("encoder", {}), "name": _encoder_hashes(resolve_encoder(recipe.encoder.name))}
    settings["order"] = list(recipe.sets)  # of the initial weights of heads, and of some samplers
    settings["precision"] = recipe.run.precision
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def describe_difference(recipe: Recipe, result: RowResult) -> str:
    """Say what a result was made with that differs from a recipe: another encoder, other files, or other settings."""
    if result["encoder"]["sha256"] != weights_sha256(resolve_encoder(recipe.encoder.name)):
        return f"another encoder, {result['encoder']['name']}"
    files = [each for spec in recipe.sets.values() for each in (spec.files, files_of(spec.task, "dev"))]
    sources = [source for each in files for source in each.sources]
    present = {_sha256(file) for source in sources for file in resolve_files(source.path)}
    changed = [name for name, known in result["data"]["files"].items() if known not in present]
    return f"different content of {', '.join(changed)}" if changed else "other settings"


def _encoder_hashes(folder: Path) -> list[str]:
    """Hash weights, configuration and tokenizer, whichever files hold them."""
    others = [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".txt")]
    tokenizer = _tokenizer_sha256(folder, _file_states(others))
    return [_sha256(*weight_files(folder)), _sha256(folder / "config.json"), tokenizer]


def _sha256(*paths: Path) -> str:
    return _cached_sha256(paths, _file_states(paths))


def _file_states(paths: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    """Return a cache key that changes with the files; a table hashes the same files again and again."""
    return tuple((state.st_mtime_ns, state.st_size) for state in (path.stat() for path in paths))


@cache
def _tokenizer_sha256(folder: Path, states: tuple[tuple[int, int], ...]) -> str:
    return TextTokenizer.from_folder(folder).sha256


@cache
def _cached_sha256(paths: tuple[Path, ...], states: tuple[tuple[int, int], ...]) -> str:
    return sha256(*paths)
