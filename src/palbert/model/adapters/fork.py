"""Fork: a point from which branches run in parallel to a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


class Fork:
    """Run branches on the stream of the layer, one after the other."""

    @staticmethod
    def now(device: torch.device) -> Fork:
        """Mark the point at which the input of the branches has been computed.

        In a CUDA graph, branches get a stream of their own: their kernels are small and run in parallel to the
        layer's. Elsewhere, switching streams costs the host more time than it saves.
        """
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return _OwnStream(device)
        return Fork()

    def run(self, compute: Callable[[], Tensor | None], shared: Sequence[Any]) -> Tensor | None:
        """Return what a branch computes.

        Args:
            compute: The branch.
            shared: What it shares with the layer or with other layers: tensors, or objects that hold them.
        """
        return compute()


class _OwnStream(Fork):
    """Autograd computes each gradient on the stream of its value, so the backward pass forks in the same way."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.ready = torch.cuda.current_stream(device).record_event()

    def run(self, compute: Callable[[], Tensor | None], shared: Sequence[Any]) -> Tensor | None:
        """Return what a branch computes; memory of shared tensors is not reused while the branch may still read it."""
        main, side = torch.cuda.current_stream(self.device), _stream(self.device)
        side.wait_event(self.ready)
        with torch.cuda.stream(side):
            added = compute()
        for tensor in _tensors(shared):
            tensor.record_stream(side)
        main.wait_stream(side)
        if added is not None:
            added.record_stream(main)
        return added


def _tensors(value: Any) -> Iterator[Tensor]:
    """Find all CUDA tensors in an object."""
    if isinstance(value, Tensor):
        if value.is_cuda:
            yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif hasattr(value, "__dict__"):
        yield from _tensors(list(vars(value).values()))


@lru_cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
