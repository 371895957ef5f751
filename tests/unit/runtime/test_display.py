"""Displays: the same table in a terminal, a pipe and a notebook."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from palbert.runtime import display as module
from palbert.runtime.display import Lines, NoDisplay, Notebook, Terminal, make_display, step_text
from palbert.runtime.progress import make_progress, progress_shown
from palbert.runtime.score_table import Row


def row(number: int) -> Row:
    return Row(f"{number}", f"{number}0", "0.5", scores={"sst": f"0.{number}"}, overall="0.7", best=True, time="0:01")


def recorded(**settings: Any) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, highlight=False, legacy_windows=False, **settings), file


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list whose sum is the time."""
    passed = [1000.0]
    monkeypatch.setattr("palbert.runtime.display.time", SimpleNamespace(monotonic=lambda: sum(passed)))
    return passed


def test_a_sentence_has_no_effect_on_the_terminal() -> None:
    console, file = recorded(force_terminal=True)
    Terminal(console).say("[red]a\x1b[2J\u202e")
    assert file.getvalue() == "[red]a\\u001b[2J\\u202e\n"


def test_a_pipe_gets_a_row_per_evaluation_and_a_line_every_half_minute(clock: list[float]) -> None:
    console, file = recorded()
    shown = Lines(console)
    shown.row(row(0))
    shown.start(900, 0)
    for step in range(1, 62):  # a second each
        clock.append(1.0)
        shown.step(step, left=900.0 - step, detail="loss 0.5")
    shown.row(row(1))
    shown.stop()
    header, before, *lines, after = file.getvalue().splitlines()
    assert header.split()[0] == "epoch" and before.split()[0] == "0" and after.split()[0] == "1"
    assert lines == [
        "step 30 of 900 (3%), about 14 min left; loss 0.5",
        "step 60 of 900 (7%), about 14 min left; loss 0.5",
    ]
    assert "\x1b" not in file.getvalue()


def test_a_row_in_a_pipe_is_one_line_however_many_tasks_there_are() -> None:
    console, file = recorded(width=80)
    many = {f"task-{number}": "0.5" for number in range(30)}
    Lines(console).row(Row("1", "2", "", scores=many, overall="0.7", best=False, time=""))
    assert len(file.getvalue().splitlines()) == 2


def test_a_terminal_prints_the_header_once_and_rows_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    console, file = recorded(force_terminal=True, width=80, no_color=True)
    bars = make_progress(console)
    monkeypatch.setattr("palbert.runtime.progress._shared", lambda: bars)
    shown = Terminal(console)
    shown.row(row(0))
    for phase in range(2):  # a run with phases starts it again
        shown.start(20, 10 * phase)
        shown.step(10 * phase + 1, left=3.0, detail="loss")
        shown.row(row(phase + 1))
        shown.stop()
    assert file.getvalue().count("overall") == 1
    assert bars.tasks == []


def test_a_notebook_has_one_output_that_is_replaced(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    ipython = pytest.importorskip("IPython.display")
    made: list[dict[str, str]] = []
    updated: list[dict[str, str]] = []

    class Handle:
        def update(self, content: dict[str, str], *, raw: bool) -> None:
            assert raw
            updated.append(content)

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        assert raw and display_id
        made.append(content)
        return Handle()

    monkeypatch.setattr(ipython, "display", display)
    shown = Notebook()
    shown.row(row(0))
    shown.start(100, 0)
    clock.append(1.0)
    shown.step(1, left=99.0, detail="loss 0.5")
    assert updated[-1]["text/plain"].splitlines()[-1] == "step 1 of 100 (1%), about 99 s left; loss 0.5"
    before = len(updated)
    shown.step(2, left=98.0, detail="loss 0.5")
    assert len(updated) == before  # not too often
    shown.row(row(1))
    shown.stop()
    shown.say("Finished <early>.")
    assert len(made) == 1
    assert [line.split()[0] for line in updated[-1]["text/plain"].splitlines()] == ["epoch", "0", "1", "Finished"]
    assert updated[-1]["text/html"].count("<tr") == 3 and "Finished &lt;early&gt;." in updated[-1]["text/html"]


def test_the_display_is_chosen_by_where_the_output_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings, kind in (
        ({"force_terminal": True}, Terminal),
        ({"force_terminal": False}, Lines),
        ({"force_jupyter": True}, Notebook),
    ):
        console, _ = recorded(**settings)
        monkeypatch.setattr(module, "console", lambda console=console: console)
        assert isinstance(make_display(), kind)
    with progress_shown(False):
        assert isinstance(make_display(), NoDisplay)


def test_a_line_about_steps_leaves_out_what_is_not_known() -> None:
    assert step_text(1234, 5000, None, "") == "step 1,234 of 5,000 (25%)"
