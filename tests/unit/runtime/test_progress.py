"""Progress: bars inside bars, and nothing is left behind."""

from __future__ import annotations

import pytest

from palbert.runtime.progress import _shared, bar, track


def test_tracking_changes_nothing_about_the_items() -> None:
    assert list(track(iter("abc"), description="letters", total=3)) == ["a", "b", "c"]
    assert _shared().tasks == []


def test_a_bar_inside_a_bar_shares_its_display() -> None:
    with bar("outer", total=2) as outer:
        outer.advance(detail="half")
        with bar("inner", total=5, completed=1) as inner:
            inner.advance(3)
            assert [(task.description, task.completed) for task in _shared().tasks] == [("outer", 1), ("inner", 4)]
        assert [task.fields["detail"] for task in _shared().tasks] == ["half"]
    assert _shared().tasks == []


def test_a_bar_is_removed_when_its_block_fails() -> None:
    with pytest.raises(RuntimeError), bar("doomed", total=1):
        raise RuntimeError
    assert _shared().tasks == []
