"""Progress bars on standard error: one line in a terminal, nothing elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from palbert.runtime.durations import clock_text
from palbert.runtime.visible import visible_line

Item = TypeVar("Item")

_open: list[Bar] = []  # the bars of all blocks that run, the outermost first
_shown: list[bool] = []  # what the calls of `progress_shown` that run say, the innermost last


@cache
def console() -> Console:
    """Return the console for everything that is not data."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


@contextmanager
def progress_shown(shown: bool | None) -> Iterator[None]:
    """Show or hide all progress while the block runs; None leaves it as it is."""
    _shown.append(is_shown() if shown is None else shown)
    try:
        yield
    finally:
        _shown.pop()


def is_shown() -> bool:
    """Return whether progress is shown: yes, unless a caller or PALBERT_PROGRESS=off in the environment hides it."""
    if _shown:
        return _shown[-1]
    return os.environ.get("PALBERT_PROGRESS", "on").lower() not in ("off", "0", "no", "false")


class Words(ProgressColumn):
    """A text of the bar as it is: neither markup nor control characters have an effect."""

    def __init__(self, written: Callable[[Task], str], style: str, column: Column) -> None:
        super().__init__(column)
        self._written = written
        self._style = style

    def render(self, task: Task) -> Text:
        """Return the text."""
        return Text(visible_line(self._written(task)), style=self._style)


class TimeLeft(ProgressColumn):
    """The time left as the caller of `Bar.advance` knows it, or as the speed so far suggests."""

    def render(self, task: Task) -> Text:
        """Return the time, as a clock shows it."""
        left = task.fields["left"]
        left = task.time_remaining if left is None else left
        return Text("-:-- left" if left is None else f"{clock_text(left)} left", style="progress.remaining")


def make_progress(console: Console) -> Progress:
    """Return the display of a bar: everything has its place, and the detail is cut to the width that remains."""

    def fixed() -> Column:
        return Column(no_wrap=True)

    return Progress(
        Words(lambda task: task.description, "bold", fixed()),
        BarColumn(bar_width=12, table_column=fixed()),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}", style="progress.download", table_column=fixed()),
        TimeLeft(table_column=fixed()),
        Words(lambda task: str(task.fields["detail"]), "dim", Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        console=console,
        transient=True,
        expand=True,
        disable=not console.is_terminal,
    )


@cache
def _shared() -> Progress:
    return make_progress(console())


class Bar:
    """How much of something is done; not shown."""

    def __init__(self, description: str, total: int, completed: int) -> None:
        self.description = description
        self.total = total
        self.completed = completed

    def advance(self, amount: int = 1, *, detail: str | None = None, left: float | None = None) -> None:
        """Advance the bar; replace the text next to it, and the seconds left, if they are given."""
        self.completed += amount

    def say(self, detail: str) -> None:
        """Replace the text next to the bar."""

    def close(self) -> None:
        """Remove the bar."""


class _Line(Bar):
    """A line of its own."""

    def __init__(self, progress: Progress, description: str, total: int, completed: int) -> None:
        super().__init__(description, total, completed)
        self._progress = progress
        self._task = progress.add_task(description, total=total, completed=completed, detail="", left=None)
        self._detail = ""
        self._left: float | None = None
        progress.start()

    def advance(self, amount: int = 1, *, detail: str | None = None, left: float | None = None) -> None:
        super().advance(amount)
        self._detail = self._detail if detail is None else detail
        self._left = self._left if left is None else left
        self._progress.update(self._task, advance=amount, detail=self._detail, left=self._left)

    def say(self, detail: str) -> None:
        self._progress.update(self._task, detail=detail or self._detail)

    def close(self) -> None:
        self._progress.remove_task(self._task)
        self._progress.stop()


class _Part(Bar):
    """A bar inside another: the text next to the outer one says how much is done."""

    def __init__(self, outer: Bar, description: str, total: int, completed: int) -> None:
        super().__init__(description, total, completed)
        self._outer = outer

    def advance(self, amount: int = 1, *, detail: str | None = None, left: float | None = None) -> None:
        super().advance(amount)
        self._outer.say(f"{self.description} {self.completed:,}/{self.total:,}")

    def close(self) -> None:
        self._outer.say("")


@contextmanager
def bar(description: str, *, total: int, completed: int = 0) -> Iterator[Bar]:
    """Show progress while the block runs: as a line, or next to the line of the block around this one."""
    if not is_shown():
        line = Bar(description, total, completed)
    elif _open:
        line = _Part(_open[0], description, total, completed)
    else:
        line = _Line(_shared(), description, total, completed)
    _open.append(line)
    try:
        yield line
    finally:
        _open.remove(line)
        line.close()


def track(items: Iterable[Item], *, description: str, total: int) -> Iterator[Item]:
    """Yield the items and show how many have been processed."""
    with bar(description, total=total) as line:
        for item in items:
            yield item
            line.advance()
