"""Provenance: what a run is made from, and which runs may be resumed or replaced."""

from __future__ import annotations

import json
import logging
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import tokenizers
import torch

from palbert import __version__
from palbert.errors import RecipeError, RunFolderError
from palbert.model.pretrained import weights_sha256
from palbert.recipe.load import load_run_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import Provenance
from palbert.reporting.wording import plural
from palbert.runtime.run_folder import RunFolder

log = logging.getLogger(__name__)


def provenance_of(
    encoder: Path,
    hashes: Mapping[str, str],
    teachers: Mapping[str, str] | None = None,
    *,
    device: torch.device,
) -> Provenance:
    """Return what a run is made from: versions, hashes of the encoder, the data files and the teachers, and threads."""
    versions = {
        "palbert": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "tokenizers": tokenizers.__version__,
    }
    return Provenance(
        versions=versions,
        encoder_sha256=weights_sha256(encoder),
        data_sha256=dict(hashes),
        teachers_sha256=dict(teachers or {}),
        threads=torch.get_num_threads() if device.type == "cpu" else None,
    )


def compare_provenance(former: Provenance | None, present: Provenance) -> None:
    """Warn if a recipe was run before with other data, another encoder or other teachers."""
    if former is None:
        return
    if former.encoder_sha256 and former.encoder_sha256 != present.encoder_sha256:
        log.warning("The encoder's weights are not those that the recipe was run with before.")
    for file, sha256 in present.data_sha256.items():
        if former.data_sha256.get(file, sha256) != sha256:
            log.warning("%s has changed since the recipe was run before.", file)
    for run, sha256 in present.teachers_sha256.items():
        if former.teachers_sha256.get(run, sha256) != sha256:
            log.warning("The teacher %s is not the one that the recipe was run with before.", run)


def warn_of_other_threads(path: Path, recipe: Recipe) -> None:
    """Warn if a run is resumed with another number of threads than it began with."""
    former, present = (each.provenance or Provenance() for each in (load_run_recipe(path), recipe))
    if former.threads and present.threads and former.threads != present.threads:
        log.warning(
            "the run began with %s and continues with %d: the last digits of its weights will differ from those of an "
            "uninterrupted run. To resume with the same, set OMP_NUM_THREADS=%d.",
            plural(former.threads, "thread"), present.threads, former.threads,
        )  # fmt: skip


def refuse_own_encoder(folder: RunFolder, encoder: Path) -> None:
    """Raise RunFolderError if the run would replace the encoder that it starts from."""
    place, start = folder.path.resolve(), encoder.resolve()
    if start == place or place in start.parents:
        raise RunFolderError(
            f"{folder.path}: holds the encoder that is to be trained, {encoder}.",
            hint="Give another folder with --out.",
        )


def refuse_another_recipe(path: Path, recipe: Recipe) -> None:
    """Raise RecipeError if a run would be resumed with other settings; its files may have moved, but not changed."""
    former, present = _flat(load_run_recipe(path)), _flat(recipe)
    differing = sorted(place for place in former.keys() | present.keys() if former.get(place) != present.get(place))
    if differing:
        raise RecipeError(
            f"{path.parent}: cannot resume with other settings than the run began with: {', '.join(differing)}.",
            hint="Resume with the run's own recipe.toml, or train into another folder with --out.",
        )


LIMIT = re.compile(r"(phases\.\d+\.)?training\.(patience|time_limit|non_finite|most_skips)$")
"""The places in a recipe that say when a run ends early; a run may be resumed with others."""
DATA_FILE = re.compile(r"tasks\.[^.]+\.(extra\.[^.]+\.)?(train|dev|test)\.\d+\.path$")
"""The places in a recipe that name a data file."""


def _flat(recipe: Recipe) -> dict[str, str]:
    """Return every setting that changes the result, by its place; files, encoder and teachers by their content."""
    made_of = recipe.provenance or Provenance()
    content = {**made_of.data_sha256, **made_of.teachers_sha256, recipe.encoder.name: made_of.encoder_sha256}
    unnamed = dict(made_of.data_sha256)  # what is behind URLs and Hub data sets
    flat: dict[str, str] = {}

    def walk(place: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(f"{place}.{key}" if place else key, item)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                walk(f"{place}.{number}", item)
        elif not LIMIT.match(place):
            known = content.get(value) if isinstance(value, str) else None
            unnamed.pop(str(value), None)
            # What is not hashed, such as test files, is known by its name.
            flat[place] = json.dumps(known or (Path(value).name if DATA_FILE.match(place) else value))

    walk(
        "",
        recipe.model_dump(
            mode="json",
            exclude={
                "provenance": True,
                "run": {"device", "capture", "tensorboard", "wandb", "mlflow"},
                "data": True,
            },
        ),
    )
    flat["the content of remote files"] = json.dumps(sorted(unnamed.values()))
    return flat
