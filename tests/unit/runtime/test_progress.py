"""Progress: one line that fits, bars inside bars, and nothing is left behind."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from palbert.runtime import progress
from palbert.runtime.progress import bar, is_shown, progress_shown, track

LOSSES = "epoch 2/3  loss 0.712  " + "  ".join(f"a-task-with-a-name-{number} 0.512" for number in range(10))


class Recorded:
    """A terminal that remembers what was written to it."""

    def __init__(self, width: int) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=True, width=width, highlight=False, legacy_windows=False)

    @property
    def last_line(self) -> str:
        """The line of the bar as it was drawn last."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue())
        return [line for line in re.split(r"[\r\n]+", plain) if line.strip()][-1]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Recorded]:
    recorded = Recorded(getattr(request, "param", 80))
    shown = progress.make_progress(recorded.console)
    shown.live.auto_refresh = False
    monkeypatch.setattr(progress, "_shared", lambda: shown)
    yield recorded
    assert shown.tasks == []


def draw(recorded: Recorded) -> str:
    progress._shared().refresh()
    return recorded.last_line


@pytest.mark.parametrize("terminal", [60, 80, 200], indirect=True)
def test_the_time_left_is_visible_in_one_line_with_ten_tasks(terminal: Recorded) -> None:
    with bar("training", total=100_000, completed=12_344) as line:
        line.advance(detail=LOSSES, left=4523.0)
        drawn = draw(terminal)
    assert "training" in drawn and "12,345/100,000" in drawn and "1:15:23 left" in drawn
    assert len(drawn.rstrip()) <= terminal.console.width
    assert ("…" in drawn) == (len(LOSSES) > terminal.console.width - 51)
    if terminal.console.width >= 80:
        assert "epoch 2/3  loss 0.712" in drawn


def test_a_bar_inside_a_bar_is_told_next_to_the_outer_one(terminal: Recorded) -> None:
    with bar("training", total=10) as outer:
        outer.advance(detail="loss 0.5", left=60.0)
        with bar("evaluating sst", total=500) as inner:
            inner.advance(120)
            drawn = draw(terminal)
            assert "training" in drawn and "1/10" in drawn and "1:00 left" in drawn
            assert drawn.rstrip().endswith("evaluating sst 120/500")
        assert draw(terminal).rstrip().endswith("loss 0.5")


def test_a_bar_without_a_known_time_estimates_it_by_its_speed(terminal: Recorded) -> None:
    with bar("tokenizing", total=10) as line:
        assert "-:-- left" in draw(terminal)
        line.advance(5)
        line.advance(1)
        assert re.search(r"\d:\d\d left", draw(terminal))


def test_names_are_shown_as_they_are_written(terminal: Recorded) -> None:
    with bar("[red]task[/red]", total=1) as line:
        line.advance(detail="[bold]x[/bold]")
        assert "[red]task[/red]" in draw(terminal) and "[bold]x[/bold]" in draw(terminal)


def test_names_and_details_have_no_effect_on_the_terminal(terminal: Recorded) -> None:
    with bar("a\x1b]0;title\x07", total=1) as line:
        line.advance(detail="b\x9b2J\u202e\nc")
        drawn = draw(terminal)
    assert r"a\u001b]0;title\u0007" in drawn and r"b\u009b2J\u202e\u000ac" in drawn


def test_tracking_changes_nothing_about_the_items(terminal: Recorded) -> None:
    assert list(track(iter("abc"), description="letters", total=3)) == ["a", "b", "c"]


def test_a_bar_is_removed_when_its_block_fails(terminal: Recorded) -> None:
    with pytest.raises(RuntimeError), bar("doomed", total=1):
        raise RuntimeError
    with bar("next", total=1):
        assert "next" in draw(terminal)


def test_hidden_progress_draws_nothing(terminal: Recorded) -> None:
    with progress_shown(False), bar("training", total=2) as line:
        line.advance(detail="loss")
        with bar("inner", total=2) as inner:
            inner.advance()
    assert terminal.file.getvalue() == ""


@pytest.mark.parametrize(("value", "shown"), [("off", False), ("0", False), ("No", False), ("on", True), ("", True)])
def test_the_environment_hides_progress_unless_a_caller_decides(
    value: str, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_PROGRESS", value)
    assert is_shown() == shown
    with progress_shown(None):
        assert is_shown() == shown
    with progress_shown(True):
        assert is_shown()
        with progress_shown(None):
            assert is_shown()
    assert is_shown() == shown
