"""Display: results as small tables, in the text of a terminal and in the HTML of a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from palbert.runtime.durations import duration_text
from palbert.runtime.visible import visible, visible_line

ROWS = 20
"""How many rows a table shows before it says how many more there are."""


@dataclass(frozen=True)
class Table:
    """A header, rows of cells, and lines of text below."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[str] = ()
    most: int = ROWS
    """How many rows are shown."""

    def text(self) -> str:
        """Return the table in aligned columns; control characters and line breaks in its cells are visible."""
        cells = [[visible_line(cell) for cell in row] for row in (self.header, *self._first())]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        below = [*self._more(), *map(visible, self.lines)]
        return "\n".join([*table, *([""] if below else []), *below])

    def html(self, *, links: Mapping[str, Path] | None = None) -> str:
        """Return the table as HTML; everything in it is escaped.

        Args:
            links: Files to link below the table, by what the link says.
        """
        head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in self.header)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in row) + "</tr>"
            for row in self._first()
        )
        below = "".join(f"<div>{escape(line)}</div>" for line in [*self._more(), *self.lines])
        linked = "".join(
            f'<div><a href="{escape(_address(path))}" target="_blank">{escape(name)}</a></div>'
            for name, path in (links or {}).items()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}{linked}"

    def _first(self) -> Sequence[Sequence[str]]:
        return self.rows if len(self.rows) <= self.most else self.rows[: self.most]

    def _more(self) -> list[str]:
        more = len(self.rows) - self.most
        return [f"… and {more:,} more"] if more > 0 else []


def _address(path: Path) -> str:
    """Return the address of a file as a notebook in the current folder links it."""
    try:
        path = Path(os.path.relpath(path))
    except ValueError:  # on another drive
        path = path.resolve()
    return quote(path.as_posix())


class Summary(dict[str, Any]):
    """The content of a report.json: a dict that is shown as a table of scores."""

    def __repr__(self) -> str:
        return summary_table(self).text()

    def _repr_html_(self) -> str:
        return summary_table(self).html()


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Return the scores of a report.json next to the baselines; any other facts as they are."""
    if "metrics" not in summary:  # of pretraining
        return Table(("", "value"), [(name, str(value)) for name, value in summary.items()])
    baselines: Mapping[str, Mapping[str, float]] = summary.get("baselines", {})
    intervals: Mapping[str, Mapping[str, float]] = summary.get("intervals", {})
    rows = [
        (
            name,
            metric,
            *(_score(values.get(name)) for values in baselines.values()),
            _score(summary["tasks"][name][metric]),
            f"{_score(intervals[name]['low'])} … {_score(intervals[name]['high'])}" if name in intervals else "–",
        )
        for name, metric in summary["metrics"].items()
    ]
    lines = (
        f"Overall {summary['overall']:.4f} = {summary['formula']}",
        *test_lines(summary.get("test")),
        f"{summary['encoder']}, seed {summary['seed']}, {summary['split']} split, "
        f"trained for {summary['seconds']:.0f} s on {summary['device']} ({summary['precision']})",
        *([f"Finished early, {summary['finished_early']}"] if summary.get("finished_early") else []),
        *(f"Note: {note}" for note in shortened(summary["notes"])),
    )
    return Table(("task", "metric", *baselines, "trained", "95 % interval"), rows, lines)


def test_lines(test: Mapping[str, Any] | None) -> list[str]:
    """Return one line for each task whose test rows were scored."""
    if test is None:
        return []
    lines = []
    for name, metric in test["metrics"].items():
        low, high = test["intervals"][name]["low"], test["intervals"][name]["high"]
        score = f"{_score(test['tasks'][name][metric])} ({_score(low)} … {_score(high)})"
        lines.append(f"Test: {name} {metric} {score}, {test['rows'][name]:,} rows that had no part in training")
    return lines


def shortened(notes: Sequence[str], *, most: int = 5) -> list[str]:
    """Return the first notes of a report, which are the most serious, and how many more it has."""
    more = len(notes) - most
    return [*notes[:most], *([f"The report has {more} more note{'s' * (more > 1)}."] if more > 0 else [])]


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def comparison_table(comparisons: Sequence[Any], reference: str) -> Table:
    """Return how runs differ from the first one."""
    rows = [
        (
            item.task,
            item.metric,
            item.run,
            f"{item.reference_score:.4f}",
            f"{item.score:.4f}",
            f"{item.difference.difference:+.4f}",
            f"{item.difference.low:+.4f} … {item.difference.high:+.4f}",
            f"{item.difference.p_value:.3f}",
        )
        for item in comparisons
    ]
    return Table(("task", "metric", "run", reference, "score", "difference", "95 % interval", "p"), rows)


def memory_table(summary: Mapping[str, Any]) -> Table:
    """Return what a dry run found: one row per phase, then the phase that needs most."""
    parts = ("parameters", "gradients", "optimizer", "other", "activations", "graphs", "total")
    rows = [
        (
            *(phase["phase"], " + ".join(phase["sets"]), f"{phase['step']:,}", f"{phase['tokens']:,}"),
            *(shown_bytes(phase["predicted"][part]) for part in parts),
            shown_bytes(phase["measured"]),
        )
        for phase in summary["phases"]
    ]
    worst = rows[summary["worst"]]
    named = f", in phase {worst[0]}" if len(rows) > 1 else ""
    has = f" with {shown_bytes(summary['capacity'])}" if summary["capacity"] else ""
    lines = (
        f"Peak memory of a step: {worst[-2]} predicted, {worst[-1]} measured{named}, "
        f"on {summary['device']}{has} ({summary['precision']})",
        "Gradients and activations are those held at the peak.",
        f"Measured: {summary['measured_by']}, in one step of full size.",
        *(time_lines(summary["time"], summary["device"]) if summary.get("time") else ()),
    )
    header = ("phase", "largest step", "number", "tokens", *parts[:-1], "predicted peak", "measured")
    return Table(header, rows, lines)


def time_lines(time: Mapping[str, Any], device: str) -> tuple[str, str]:
    """Say how long a run would take."""
    parts = ", ".join(f"{name} {duration_text(time[name])}" for name in ("steps", "evaluation", "baselines"))
    text = f"Time: about {duration_text(time['total'])} on {device} ({parts})"
    if time["limit"] and time["limit"] < time["steps"] + time["evaluation"]:
        text += f"; the time limit of {duration_text(time['limit'])} would end it earlier"
    return f"{text}.", "Estimated from a few steps and dev rows; other work on this machine changes it."


def shown_bytes(count: int | None) -> str:
    """Format a number of bytes for people."""
    if count is None:
        return "does not fit"
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"


def prediction_table(predictions: Sequence[Any], texts: Sequence[Any] = ()) -> Table:
    """Return answers and probabilities, next to the texts if they are given."""
    classes = list(dict.fromkeys(name for each in predictions[:ROWS] for name in each.probabilities or ()))
    rows = [
        (
            *([_shortened(texts[number])] if texts else []),
            _answer(each.answer),
            *(_score((each.probabilities or {}).get(name)) for name in classes),
        )
        for number, each in enumerate(predictions[:ROWS])
    ]
    rows += [()] * (len(predictions) - len(rows))  # counted, not shown
    return Table((*(["text"] if texts else []), "answer", *classes), rows)


def answers_table(rows: Sequence[Mapping[str, Any]], texts: Sequence[Any] = ()) -> Table:
    """Return the answers of several tasks, a column for each, next to the texts if they are given."""
    tasks = list(dict.fromkeys(name for row in rows[:ROWS] for name in row))
    cells = [
        (
            *([_shortened(texts[number])] if texts else []),
            *(_answer(row[name]) if name in row else "" for name in tasks),
        )
        for number, row in enumerate(rows[:ROWS])
    ]
    return Table((*(["text"] if texts else []), *tasks), [*cells, *[()] * (len(rows) - len(cells))])


def tasks_table(tasks: Iterable[Any]) -> Table:
    """Return what each task of a model takes and answers."""
    rows = [
        (
            task.name,
            "a pair of texts" if task.kind == "pair" else "one text",
            _answers(task),
            f"{task.max_length:,}",
        )
        for task in tasks
    ]
    return Table(("task", "takes", "answers", "tokens"), rows, () if rows else ("An encoder without tasks.",))


def _answers(task: Any) -> str:
    if task.range:
        return f"a number from {task.range[0]:g} to {task.range[1]:g}"
    return _shortened(", ".join(task.target.classes)) or "a number"


def facts_table(facts: Mapping[str, Any], lines: Sequence[str] = ()) -> Table:
    """Return facts with their names."""
    return Table(("", ""), [(name, str(value)) for name, value in facts.items()], lines)


def _answer(answer: Any) -> str:
    if isinstance(answer, list | tuple):
        return ", ".join(map(str, answer)) or "–"
    return f"{answer:.3f}" if isinstance(answer, float) else str(answer)


def _shortened(text: str | Sequence[str]) -> str:
    shown = text if isinstance(text, str) else " | ".join(text)
    return shown if len(shown) <= 80 else shown[:79] + "…"
