"""Prediction files: one CSV a task and split, written by evaluation and read by comparison."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from palbert.errors import DataError
from palbert.inference.results import TaskResult
from palbert.runtime.files import CSVWriter, write_text


def write_predictions(folder: Path, result: TaskResult) -> Path:
    """Write id, gold, prediction, the probability of each class, and the texts."""
    path = folder / f"{result.task}-{result.split}.csv"
    texts = ["text"] if len(result.texts[0]) == 1 else ["text1", "text2"]
    probabilities = [f"p({name})" for name in result.classes]
    buffer = io.StringIO()
    writer = CSVWriter(buffer)
    writer.writerow(["id", "gold", "prediction", *probabilities, *texts])
    for index, (row, text) in enumerate(zip(result.ids, result.texts, strict=True)):
        shares = [] if result.probabilities is None else result.probabilities[index]
        writer.writerow(
            [
                row,
                _shown(result, result.gold[index]),
                _shown(result, result.predicted[index]),
                *(f"{share:.6f}" for share in shares),
                *text,
            ]
        )
    write_text(path, buffer.getvalue())
    return path


def _shown(result: TaskResult, value: float | int) -> str:
    return result.classes[int(value)] if result.classes else f"{value:.6g}"


def read_predictions(path: Path, *, classes: tuple[str, ...]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return ids, gold and predicted values of a prediction file."""
    index = {name: number for number, name in enumerate(classes)}
    ids, gold, predicted = [], [], []
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            try:
                ids.append(row["id"])
                gold.append(index[row["gold"]] if classes else float(row["gold"]))
                predicted.append(index[row["prediction"]] if classes else float(row["prediction"]))
            except (KeyError, ValueError) as error:
                raise DataError(f"{path}, row {len(ids)}: not a prediction file of these classes: {error}.") from error
    return ids, np.array(gold), np.array(predicted)
