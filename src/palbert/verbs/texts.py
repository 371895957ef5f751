"""Texts to be answered: rows turned into columns, and the tasks that take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palbert.errors import DataError
from palbert.tasks.spec import Task

Text = str | tuple[str, str]
WANTED = {"single": "a text", "pair": "a pair of texts"}


def columns_of(task: Task, texts: Sequence[Text]) -> list[list[str]]:
    """Turn rows into columns; raise DataError unless each is what the task takes."""
    if isinstance(texts, str):
        raise DataError(f"Task '{task.name}' takes a list, found one text.", hint=f"Write [{texts!r:.40}].")
    rows: list[tuple[str, ...]] = []
    for number, text in enumerate(texts):
        row = _row(text)
        if len(row) != len(task.text) or not all(isinstance(item, str) for item in row):
            hint = f'Write predict("{task.name}", [("first", "second")]).' if task.kind == "pair" else None
            raise DataError(
                f"Task '{task.name}' takes {WANTED[task.kind]} per row; row {number} is {text!r:.60}.", hint=hint
            )
        rows.append(row)
    return [[row[side] for row in rows] for side in range(len(task.text))]


def tasks_for(tasks: Mapping[str, Task], texts: Sequence[Text]) -> list[Task]:
    """Return the tasks that take rows like these, single texts or pairs; raise DataError if there are none."""
    if isinstance(texts, str):
        raise DataError("Expected a list of texts, found one text.", hint=f"Write [{texts!r:.40}].")
    if not tasks:
        raise DataError("This is an encoder without tasks, which has no answers.", hint="It has vectors: use embed.")
    widths = {len(_row(text)) for text in texts}
    if len(widths) > 1:
        raise DataError("Some rows are single texts and others are pairs.", hint="Ask for them separately.")
    fitting = [task for task in tasks.values() if {len(task.text)} >= widths]
    if not fitting:
        found = {1: "single texts", 2: "pairs"}.get(max(widths), f"rows of {max(widths)} texts")
        known = ", ".join(f"{task.name} takes {WANTED[task.kind]}" for task in tasks.values())
        raise DataError(f"No task of this model takes {found}: {known}.")
    return fitting


def _row(text: Text) -> tuple[str, ...]:
    return tuple(text) if isinstance(text, tuple | list) else (text,)
