"""Displays: the table of scores and how far a run is, in a terminal, a pipe or a notebook."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from html import escape
from typing import Any

from rich.console import Console
from rich.text import Text

from palbert.runtime.durations import duration_text
from palbert.runtime.progress import Bar, bar, console, is_shown
from palbert.runtime.score_table import Row, table_html, table_lines
from palbert.runtime.visible import visible

LINE_EVERY = 30.0
"""Seconds between two lines about the steps, where the output is not a terminal."""
NOTEBOOK_EVERY = 0.5
"""Seconds between two updates of a notebook's output."""


class Display(ABC):
    """Show a run; a run with phases starts and stops it once per phase."""

    @abstractmethod
    def start(self, total: int, completed: int) -> None:
        """Begin to show steps."""

    @abstractmethod
    def step(self, number: int, *, left: float | None, detail: str) -> None:
        """Show that a step is done, the seconds left if they are known, and the losses."""

    @abstractmethod
    def row(self, row: Row) -> None:
        """Show an evaluation."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Show a sentence."""

    @abstractmethod
    def stop(self) -> None:
        """Show no more steps."""


class NoDisplay(Display):
    """Show nothing."""

    def start(self, total: int, completed: int) -> None:
        """No-op."""

    def step(self, number: int, *, left: float | None, detail: str) -> None:
        """No-op."""

    def row(self, row: Row) -> None:
        """No-op."""

    def say(self, text: str) -> None:
        """No-op."""

    def stop(self) -> None:
        """No-op."""


class _Printed(Display):
    """Rows as lines of text; `wide` if lines may be of any length."""

    def __init__(self, console: Console, *, wide: bool) -> None:
        self.console = console
        self.wide = wide
        self.total = 0
        self._has_header = False

    def start(self, total: int, completed: int) -> None:
        """Remember the number of steps."""
        self.total = total

    def row(self, row: Row) -> None:
        """Print the row, and the header before the first one."""
        width = 10_000 if self.wide else self.console.width
        for line in table_lines(row, width=width, header=not self._has_header):
            self.console.print(line, soft_wrap=True)
        self._has_header = True

    def say(self, text: str) -> None:
        """Print the sentence."""
        self.console.print(Text(visible(text)), soft_wrap=True)


class Terminal(_Printed):
    """A bar on the last line, and the table above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, wide=False)
        self._bars = ExitStack()
        self._bar: Bar | None = None

    def start(self, total: int, completed: int) -> None:
        """Open the bar."""
        super().start(total, completed)
        self._bar = self._bars.enter_context(bar("training", total=total, completed=completed))

    def step(self, number: int, *, left: float | None, detail: str) -> None:
        """Advance the bar."""
        if self._bar:
            self._bar.advance(number - self._bar.completed, detail=detail, left=left)

    def stop(self) -> None:
        """Remove the bar."""
        self._bars.close()
        self._bar = None


class Lines(_Printed):
    """Plain lines for pipes and files: the table, and now and then how far the run is."""

    def __init__(self, console: Console, *, every: float = LINE_EVERY) -> None:
        super().__init__(console, wide=True)
        self.every = every
        self._last = 0.0

    def start(self, total: int, completed: int) -> None:
        """Start the clock."""
        super().start(total, completed)
        self._last = time.monotonic()

    def step(self, number: int, *, left: float | None, detail: str) -> None:
        """Print a line if the last one is some time ago."""
        if time.monotonic() - self._last >= self.every:
            self._last = time.monotonic()
            self.say(step_text(number, self.total, left, detail))

    def row(self, row: Row) -> None:
        """Print the row; the next line about steps comes some time after it."""
        super().row(row)
        self._last = time.monotonic()

    def stop(self) -> None:
        """No-op."""


class Notebook(Display):
    """One output below the cell, which is replaced as the run continues: the table, and a line about the steps."""

    def __init__(self) -> None:
        self.total = 0
        self.rows: list[Row] = []
        self.said: list[str] = []
        self._progress = ""
        self._last = 0.0
        self._handle: Any = None

    def start(self, total: int, completed: int) -> None:
        """Show the table so far."""
        self.total = total
        self._update()

    def step(self, number: int, *, left: float | None, detail: str) -> None:
        """Update the line about the steps, but not too often."""
        if time.monotonic() - self._last >= NOTEBOOK_EVERY:
            self._progress = step_text(number, self.total, left, detail)
            self._update()

    def row(self, row: Row) -> None:
        """Add the row."""
        self.rows.append(row)
        self._update()

    def say(self, text: str) -> None:
        """Add the sentence below the table."""
        self.said.append(text)
        self._update()

    def stop(self) -> None:
        """Remove the line about the steps."""
        self._progress = ""
        self._update()

    @property
    def content(self) -> dict[str, str]:
        """The output as plain text and as HTML."""
        sentences = [*self.said, *([self._progress] if self._progress else [])]
        lines = [
            line.plain
            for number, row in enumerate(self.rows)
            for line in table_lines(row, width=10_000, header=number == 0)
        ]
        return {
            "text/plain": "\n".join([*lines, *sentences]),
            "text/html": table_html(self.rows) + "".join(f"<div>{escape(sentence)}</div>" for sentence in sentences),
        }

    def _update(self) -> None:
        from IPython.display import display

        self._last = time.monotonic()
        if self._handle:
            self._handle.update(self.content, raw=True)
        else:
            self._handle = display(self.content, raw=True, display_id=True)


def step_text(number: int, total: int, left: float | None, detail: str) -> str:
    """Return how far a run is, as a sentence."""
    known = "" if left is None else f", about {duration_text(left)} left"
    return f"step {number:,} of {total:,} ({number / max(total, 1):.0%}){known}" + (f"; {detail}" if detail else "")


def make_display() -> Display:
    """Return the display for where this process writes to."""
    if not is_shown():
        return NoDisplay()
    if console().is_jupyter:
        return Notebook()
    return Terminal(console()) if console().is_terminal else Lines(console())
