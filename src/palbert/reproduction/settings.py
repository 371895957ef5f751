"""Settings: a recipe's nested values before they are checked; how rows change them, and how smoke runs shrink them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from palbert.tasks.catalog import SAMPLES

Settings = Mapping[str, Any]

SHORT = {"epochs": 1, "steps_per_epoch": 4}
SMALL = {"batch_size": 4, "max_length": 64}
SMOKE = {
    "data": "samples",
    "encoder": {"name": "minilm"},
    "training": {**SHORT, "batch_size": 4, "log_every": 1},
    "run": {"tensorboard": False},
}


def merge(values: Settings, changes: Settings) -> dict[str, Any]:
    """Return values with changes applied: tables are merged, everything else is replaced."""
    result = copy.deepcopy(dict(values))
    for key, change in changes.items():
        own = result.get(key)
        tables = isinstance(own, Mapping) and isinstance(change, Mapping)
        result[key] = merge(result[key], change) if tables else copy.deepcopy(change)
    return result


def shrink(values: Settings) -> dict[str, Any]:
    """Return a recipe that runs in seconds: sample data, the small encoder, a few short steps."""
    result = merge(values, SMOKE)
    if "cfimdb" in result["tasks"]:  # the package has no reviews to evaluate on
        result["tasks"]["cfimdb"].update(train="cfimdb-train.tsv", dev="cfimdb-train.tsv")
    for name, task in result["tasks"].items():
        _shrink_task(name, task)
    for phase in result.get("phases", ()):
        own = phase.get("training", {})
        # At most two epochs, so that rows which differ in the length of a phase still differ.
        phase["training"] = {**own, **SHORT, "epochs": min(own.get("epochs", 1), 2)}
    return result


def _shrink_task(name: str, task: dict[str, Any]) -> None:
    """Give a task short batches and, if the package has sample rows for it, those in place of its files."""
    task.update(SMALL)
    if name in SAMPLES:
        for key in ("train", "drop_overlap"):
            task.pop(key, None)
    for extra in task.get("extra", {}).values():
        if "train" in extra and name in SAMPLES:
            extra.update(train=f"{name}-train.tsv")
            for key in ("text", "label", "labels"):
                extra.pop(key, None)
        extra.update(SMALL)
