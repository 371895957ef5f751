"""Fork: a point from which branches run beside a layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor


class Fork:
    """Run branches in line with the layer."""

    @staticmethod
    def now(device: torch.device) -> Fork:
        """Note that a layer's input is there.

        In a CUDA graph, branches get a stream of their own: their kernels are small, and fit beside the layer's.
        Elsewhere, switching streams takes the host longer than it saves.
        """
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return _OwnStream(device)
        return Fork()

    def run(self, compute: Callable[[], Tensor | None], hidden: Tensor) -> Tensor | None:
        """Return what a branch makes of the layer's input."""
        return compute()


class _OwnStream(Fork):
    """Autograd takes each gradient on the stream of its value, so that the backward pass forks alike."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.ready = torch.cuda.current_stream(device).record_event()

    def run(self, compute: Callable[[], Tensor | None], hidden: Tensor) -> Tensor | None:
        """Return what a branch makes of the layer's input."""
        main, side = torch.cuda.current_stream(self.device), _stream(self.device)
        side.wait_event(self.ready)
        hidden.record_stream(side)  # it is not given away while the other stream still reads it
        with torch.cuda.stream(side):
            added = compute()
        main.wait_stream(side)
        if added is not None:
            added.record_stream(main)
        return added


@lru_cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
