"""Rows for the check of an export: texts of all lengths, and the dev rows that a run has predicted."""

from __future__ import annotations

import logging

from palbert.errors import PalbertError
from palbert.reporting.predictions import read_predictions
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task
from palbert.verbs.export_check import TEXTS

MOST = 96
"""How many dev rows of a task are compared."""
Row = str | tuple[str, str]

log = logging.getLogger(__name__)


def rows_of(task: Task, run: RunFolder | None) -> list[Row]:
    """Return texts, or pairs of them: empty, short and longer than any encoder reads, then dev rows of the run."""
    dev: list[tuple[str, ...]] = []
    if run is not None:
        try:
            dev = read_predictions(run.predictions / f"{task.name}-dev.csv", target=task.target).texts[:MOST]
        except (OSError, PalbertError) as error:
            log.debug("No dev rows to check %s with: %s", task.name, error)
    if len(task.text) == 1:
        return [*TEXTS, *(row[0] for row in dev if len(row) == 1)]
    pairs = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True))
    return [*pairs, *((row[0], row[1]) for row in dev if len(row) == 2)]
