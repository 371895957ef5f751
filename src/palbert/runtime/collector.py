"""Collector: Python's search for reference cycles, put off while a process starts."""

from __future__ import annotations

import gc


def pause_collector() -> None:
    """Search for no cycles: while libraries are imported, each search looks at more objects and finds nothing."""
    gc.disable()


def resume_collector() -> None:
    """Search for cycles again, but not among what exists now; objects without references are freed all the same."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
