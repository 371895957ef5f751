"""Loss spikes: losses far above what has been usual for their set."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

WINDOW = 50
"""Losses of a set that the next one is compared with."""
FIRST = 20
"""Losses of a set before which none is a spike."""
FACTOR = 3.0
"""A spike is above this times the median of the window …"""
SPREADS = 10.0
"""… and above the median by this times the median distance from it: losses of small batches vary widely."""


def find_spike(loss: float, *, recent: Sequence[float], highest: float) -> float | None:
    """Return the usual loss of a set if the next one is a spike, else None.

    Args:
        loss: The next loss, which is finite.
        recent: The losses before it, at most `WINDOW`.
        highest: The highest of the first `FIRST` losses. A spike is above that too: when a set is almost learnt, a
            single row that is not gives a loss many times the usual one.
    """
    if len(recent) < FIRST or loss <= highest:
        return None
    usual = median(recent)
    spread = median(abs(each - usual) for each in recent)
    return usual if loss > usual + max((FACTOR - 1) * abs(usual), SPREADS * spread) else None


def add_loss(loss: float, recent: list[float], highest: float | None) -> float:
    """Add a loss to the recent ones; return the highest of the first ones, None before there is any."""
    if len(recent) < FIRST:
        highest = loss if highest is None else max(highest, loss)
    recent.append(loss)
    del recent[:-WINDOW]
    assert highest is not None, "the first loss is the highest so far"
    return highest
