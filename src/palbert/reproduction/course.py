"""The course: names and form of the files that the CS224N default final project reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palbert.tasks.catalog import CATALOG, COURSE_FILES


@dataclass(frozen=True)
class PredictionFile:
    """The course's prediction file of a task."""

    name: str
    """The file's name, with {split} in it."""
    column: str
    """The header of the predictions, in the course's own spelling."""
    number: str
    """The format of a prediction: a class index or a number."""


PREDICTION_FILES = {
    "sst": PredictionFile("sst-{split}-output.csv", "Predicted_Sentiment", "d"),
    "quora": PredictionFile("para-{split}-output.csv", "Predicted_Is_Paraphrase", ".1f"),
    "sts": PredictionFile("sts-{split}-output.csv", "Predicted_Similiary", ".6f"),
    "cfimdb": PredictionFile("full-model-cfimdb-{split}-out.csv", "Predicted_Sentiment", "d"),
}


def course_file(folder: str | Path, task: str, split: Literal["dev", "test"]) -> Path | None:
    """Return the course's data file of a task in a folder; None if the course has no such task."""
    name = COURSE_FILES.get(task, {}).get(split)
    return Path(folder) / name if name else None


def course_text_columns(task: str) -> tuple[str, ...]:
    """Return the text columns of the course's files of a task; none if the course has no such task."""
    columns = CATALOG.get(task, {}).get("text", ())
    return (columns,) if isinstance(columns, str) else tuple(columns)
