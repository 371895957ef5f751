"""Progress bars on standard error; silent unless it is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")


@cache
def console() -> Console:
    """Return the console for everything that is not data."""
    return Console(stderr=True, highlight=False)


@cache
def _shared() -> Progress:
    # One display for all bars: the bar of an evaluation appears below that of the training.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[detail]}", style="dim"),
        console=console(),
        transient=True,
        disable=not console().is_terminal,
    )


class Bar:
    """One line of progress."""

    def __init__(self, progress: Progress, description: str, total: int, completed: int) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=total, completed=completed, detail="")

    def advance(self, amount: int = 1, *, detail: str | None = None) -> None:
        """Advance the bar, and replace the text next to it if one is given."""
        if detail is None:
            self._progress.update(self._task, advance=amount)
        else:
            self._progress.update(self._task, advance=amount, detail=detail)

    def remove(self) -> None:
        """Remove the line."""
        self._progress.remove_task(self._task)


@contextmanager
def bar(description: str, *, total: int, completed: int = 0) -> Iterator[Bar]:
    """Show a progress bar while the block runs."""
    progress = _shared()
    outermost = not progress.tasks
    if outermost:
        progress.start()
    line = Bar(progress, description, total, completed)
    try:
        yield line
    finally:
        line.remove()
        if outermost:
            progress.stop()


def track(items: Iterable[Item], *, description: str, total: int) -> Iterator[Item]:
    """Yield the items and show how many have been processed."""
    with bar(description, total=total) as line:
        for item in items:
            yield item
            line.advance()
