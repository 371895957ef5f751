"""Prediction files: one CSV per task and split, written by evaluation and read by comparison."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palbert.errors import DataError
from palbert.inference.results import TaskResult
from palbert.metrics import Values
from palbert.runtime.csv_lines import CSVWriter, allow_long_fields
from palbert.runtime.files import write_text
from palbert.runtime.spreadsheet import original_cell, safe_cell
from palbert.targets import Target


@dataclass(frozen=True)
class Predictions:
    """What a prediction file holds."""

    ids: list[str]
    texts: list[tuple[str, ...]]
    gold: Values
    predicted: Values
    probabilities: NDArray[np.float64] | None
    """(rows, classes), rounded to six digits; None for a target without classes."""


SPREADSHEET_SAFE = "spreadsheet_safe"
"""The column that says that texts which may become formulas have an apostrophe in front."""


def write_predictions(folder: Path, result: TaskResult, *, spreadsheet_safe: bool = False) -> Path:
    """Write id, gold, prediction, the probability of each class, and the texts.

    Args:
        folder: Where to write.
        result: The predictions of a task.
        spreadsheet_safe: Escape what a spreadsheet program may take for a formula; a last column says so.
    """
    path = folder / f"{result.task}-{result.split}.csv"
    texts = ["text"] if len(result.texts[0]) == 1 else ["text1", "text2"]
    target = result.target
    marks = [SPREADSHEET_SAFE] if spreadsheet_safe else []
    buffer = io.StringIO()
    writer = CSVWriter(buffer)
    writer.writerow(["id", "gold", "prediction", *map(probability_column, target.classes), *texts, *marks])
    for index, (row, text) in enumerate(zip(result.ids, result.texts, strict=True)):
        shares = [] if result.probabilities is None else result.probabilities[index]
        labels = (target.show(target.answer(values[index])) for values in (result.gold, result.predicted))
        cells = [row, *labels, *(f"{share:.6f}" for share in shares), *text]
        writer.writerow([*map(safe_cell, cells), "true"] if spreadsheet_safe else cells)
    write_text(path, buffer.getvalue())
    return path


def read_predictions(path: Path, *, target: Target) -> Predictions:
    """Read a prediction file of a target."""
    allow_long_fields()
    ids, texts, gold, predicted, shares = [], [], [], [], []
    columns = [probability_column(name) for name in target.classes]
    with path.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), 1):
            try:
                if None in row.values():
                    raise ValueError("fields are missing")
                if row.get(SPREADSHEET_SAFE) == "true":
                    row = {name: original_cell(cell) for name, cell in row.items()}
                ids.append(row["id"])
                texts.append(tuple(row[name] for name in ("text", "text1", "text2") if name in row))
                gold.append(target.parse(row["gold"]))
                predicted.append(target.parse(row["prediction"]))
                shares.append([float(row[name]) for name in columns if name in row])
            except (KeyError, ValueError) as error:
                raise DataError(f"{path}, row {number}: not a prediction of this task's target: {error}.") from error
    probabilities = np.array(shares, dtype=np.float64) if columns else None
    return Predictions(ids, texts, target.gold(np.array(gold)), target.gold(np.array(predicted)), probabilities)


def probability_column(name: str) -> str:
    """Return the column of a class's probability."""
    return f"p({name})"
