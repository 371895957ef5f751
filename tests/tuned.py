"""A recipe that trains in a moment, and a space for it: what tests of searches share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROWS = [
    {
        "text": f"{'good ' * (number % 5)}{'bad ' * (number % 3)}film",
        "label": number % 5 - number % 3 / 2 + number / 100,
    }
    for number in range(24)
]
"""Rows whose label is a number, so that scores differ in their last digits where anything differs."""
SPACE: dict[str, Any] = {
    "optimizer.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "training.epochs": {"low": 2, "high": 3},
    "training.batch_size": [2, 4, 8],
}


def quick_values(folder: Path, encoder: Path) -> dict[str, Any]:
    """Return the values of a recipe of one task with 24 rows, which are written into a folder."""
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return {
        "seed": 1,
        "encoder": {"name": str(encoder)},
        "tasks": {"own": {"train": str(folder / "own.jsonl"), "dev": "50%"}},
        "training": {"epochs": 2, "steps_per_epoch": 2, "batch_size": 4},
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }
