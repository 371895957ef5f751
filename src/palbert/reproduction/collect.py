"""Collect the result of a finished run: what tables, claims and plots need, without paths or texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.build import load_split, load_training_sets
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import load_run_recipe
from palbert.recipe.schema import Recipe
from palbert.reporting.panels import panels_of
from palbert.reporting.predictions import read_predictions
from palbert.reproduction.fingerprint import fingerprint
from palbert.runtime.run_folder import RunFolder
from palbert.training.hooks import read_records

POINTS = 200
"""The most points of a loss curve that are kept."""
COPIED = (
    *("overall", "formula", "tasks", "metrics", "seconds", "device", "precision", "rows"),
    *("epoch", "step", "split"),
)
"""Parts of report.json that are kept as they are."""


def collect_result(run: Path) -> dict[str, Any]:
    """Collect the result of a finished run from its folder and its recipe's data."""
    folder = RunFolder(run)
    recipe = load_run_recipe(folder.recipe)
    report = json.loads(folder.report("json").read_text("utf-8"))
    encoder = _short(recipe.encoder.name)
    provenance = recipe.provenance
    assert provenance is not None  # every run writes it
    return {
        "fingerprint": fingerprint(recipe),
        "seed": recipe.seed,
        **{key: report[key] for key in COPIED},
        "parameters": _parameters(recipe, report["parameters"]),
        "encoder": {"name": encoder, "sha256": provenance.encoder_sha256},
        "data": {"variant": _short(recipe.data or "files"), "files": _without_folders(provenance.data_sha256)},
        "versions": provenance.versions,
        "notes": [note.replace(recipe.encoder.name, encoder) for note in report["notes"]],
        "losses": _losses(folder),
        **_answers(folder, recipe),
        "labels": _labels(recipe),
    }


def _without_folders(hashes: Mapping[str, str]) -> dict[str, str]:
    """Key hashes by file name, with the folder's name in front where several files share a name."""
    names = Counter(Path(file).name for file in hashes)
    paths = {Path(file): sha256 for file, sha256 in hashes.items()}
    return {path.name if names[path.name] == 1 else f"{path.parent.name}/{path.name}": paths[path] for path in paths}


def _short(name: str) -> str:
    """Return the last part of an absolute path; other names stay as they are."""
    return Path(name).name if Path(name).is_absolute() else name


def _parameters(recipe: Recipe, counted: dict[str, Any]) -> dict[str, int]:
    """Count the parameters, and those that any phase trains."""
    further = sum(counted.get(name, 0) for name in ("shared_adapter", "relation"))
    total = counted["encoder"] + sum(counted["per_task"].values()) + further
    trains = any("encoder" in (stage.training.trains or ("encoder",)) for stage in recipe.stages)
    trained = total if trains and not recipe.encoder.frozen else total - counted["encoder"]
    return {"total": total, "trained": trained}


def _losses(folder: RunFolder) -> dict[str, list[list[float]]]:
    """Return the loss curve of every set as (step, loss) points, thinned evenly."""
    curves: dict[str, list[list[float]]] = {}
    for record in read_records(folder.metrics):
        for name, loss in record["losses"].items() if record["kind"] == "train" else ():
            if loss is not None:
                curves.setdefault(name, []).append([record["step"], round(loss, 4)])
    return {name: curve[:: -(-len(curve) // POINTS)] for name, curve in curves.items()}


def _labels(recipe: Recipe) -> dict[str, dict[str, list[int]]]:
    """Count the labels of each task with classes, set by set: `sst train`, `sst+cfimdb train`, `sst dev`."""
    tokenizer = TextTokenizer.from_folder(resolve_encoder(recipe.encoder.name))
    found: dict[str, dict[str, list[int]]] = {}
    train = [(each.name, each.task, each.rows) for each in load_training_sets(recipe, tokenizer).values()]
    dev = [(name, name, dataset) for name, dataset in load_split(recipe, "dev", tokenizer).items()]
    for name, task, dataset in [*train, *dev]:
        target = recipe.tasks[task].target
        if target.classes and dataset.labels is not None:
            counts = target.class_counts(dataset.labels)
            found.setdefault(task, {})[f"{name} {dataset.split}"] = counts.tolist()
    return found


def _answers(folder: RunFolder, recipe: Recipe) -> dict[str, Any]:
    """Return the predictions of every task as its panels condense them, such as confusion matrices."""
    sections: dict[str, dict[str, Any]] = {"confusion": {}, "numbers": {}}
    for name, task in recipe.tasks.items():
        panels = panels_of(task.target)
        if panels.section:
            read = read_predictions(folder.predictions / f"{name}-dev.csv", target=task.target)
            sections.setdefault(panels.section, {})[name] = panels.condense(read.gold, read.predicted)
    return sections
