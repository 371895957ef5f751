"""Score table: one row per evaluation, as lines that fit a width, or as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from rich.text import Text

from palbert.runtime.visible import visible_line

NAME_WIDTH = 12
"""Characters of a task's name at the head of a column."""


@dataclass(frozen=True)
class Row:
    """One evaluation."""

    epoch: str
    step: str
    loss: str
    """The mean training loss since the row before."""
    scores: Mapping[str, str]
    """The main metric of each task."""
    overall: str
    best: bool
    """Whether the overall score is the highest so far."""
    time: str
    """Time since the start of the run."""

    @property
    def cells(self) -> dict[str, str]:
        """All columns but those of the tasks, by their heading."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "loss": self.loss,
            "overall": self.overall,
            "": "best" if self.best else "",
            "time": self.time,
        }


WIDTHS = {"epoch": 5, "step": 7, "loss": 6, "overall": 7, "": 4, "time": 7}
BEFORE_TASKS = ("epoch", "step", "loss")


def table_lines(row: Row, *, width: int, header: bool) -> list[Text]:
    """Return the lines of a row, after those of the header if asked for.

    Tasks have a column each; if those do not fit into the width, the scores follow below the row, with their names.
    """
    scores = {visible_line(task): score for task, score in row.scores.items()}
    columns = {task: max(6, min(len(task), NAME_WIDTH)) for task in scores}
    fits = sum(WIDTHS.values()) + sum(columns.values()) + 2 * (len(WIDTHS) + len(columns) - 1) <= width
    widths = {name: WIDTHS[name] for name in BEFORE_TASKS} | (columns if fits else {})
    widths |= {name: size for name, size in WIDTHS.items() if name not in BEFORE_TASKS}
    cells = {**row.cells, **(scores if fits else {})}
    lines = []
    if header:
        lines.append(Text("  ".join(f"{_cut(name, size):>{size}}" for name, size in widths.items()).rstrip(), "bold"))
    best = "bold green" if row.best else ""
    line = Text("  ").join(
        Text(f"{cells[name]:>{size}}", style=best if name in ("overall", "") else "") for name, size in widths.items()
    )
    return [*lines, line, *([] if fits else _wrapped(scores, width))]


def _cut(name: str, size: int) -> str:
    return name if len(name) <= size else f"{name[: size - 1]}…"


def _wrapped(scores: Mapping[str, str], width: int) -> list[Text]:
    """Return names and scores in as many lines as they need."""
    indent = " " * (WIDTHS["epoch"] + 2)
    lines = [indent]
    for task, score in scores.items():
        part = f"{task} {score}"
        if lines[-1] != indent and len(lines[-1]) + len(part) > width:
            lines.append(indent)
        lines[-1] += f"{part}  "
    return [Text(line.rstrip(), "dim") for line in lines]


def table_html(rows: Sequence[Row]) -> str:
    """Return all rows as an HTML table; nothing if there are none."""
    if not rows:
        return ""
    lines = []
    for row in rows:
        cells = row.cells
        ordered = [*(cells[name] for name in BEFORE_TASKS), *row.scores.values()]
        ordered += [value for name, value in cells.items() if name not in BEFORE_TASKS]
        style = ' style="font-weight: bold"' if row.best else ""
        lines.append(f"<tr{style}>" + "".join(f"<td>{escape(value)}</td>" for value in ordered) + "</tr>")
    names = [*BEFORE_TASKS, *rows[-1].scores, *(name for name in WIDTHS if name not in BEFORE_TASKS)]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
