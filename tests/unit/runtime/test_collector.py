"""The collector of cycles: paused, and resumed without what exists."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from palbert.runtime.collector import pause_collector, resume_collector


class Node:
    other: Node | None = None


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_what_existed_is_not_searched_and_what_comes_later_is() -> None:
    pause_collector()
    assert not gc.isenabled()
    early = Node()
    resume_collector()
    assert gc.isenabled() and gc.get_freeze_count() > 0
    late = Node()
    late.other = late
    seen = weakref.ref(late)
    assert not any(each is early for each in gc.get_objects())
    del late
    gc.collect()
    assert seen() is None


def test_what_existed_is_freed_with_its_last_reference() -> None:
    pause_collector()
    early = Node()
    resume_collector()
    seen = weakref.ref(early)
    del early
    assert seen() is None


def test_a_collector_that_was_not_paused_is_left_alone() -> None:
    frozen = gc.get_freeze_count()
    resume_collector()
    assert gc.isenabled() and gc.get_freeze_count() == frozen
