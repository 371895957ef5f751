"""Memory: the bytes that live on a device, operation by operation."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

Timeline = list[tuple[str, int]]
"""Each operation, and the bytes that lived after it above those that lived before the first."""


class Gauge(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follow every operation of torch, forward and backward, while it is entered: bytes of the tensors they make.

    Counts whole storages, each from the operation that makes it until nobody holds it any more. What an operation needs
    for itself alone is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.timeline: Timeline = []
        self._living: dict[int, int] = {}
        self._bytes = 0

    @property
    def peak(self) -> int:
        """The most bytes that lived at once."""
        return max((live for _, live in self.timeline), default=0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do the operation, and count."""
        self._before()
        result = func(*args, **(kwargs or {}))
        self.timeline.append((str(func), self._after((args, kwargs), result)))
        return result

    def _before(self) -> None:
        """Nothing: tensors are counted when they are there."""

    def _after(self, given: Any, result: Any) -> int:
        # What was given was counted when it was made, or is older: results may be views of it.
        old = {tensor.untyped_storage()._cdata for tensor in _tensors(given)}
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in old and key not in self._living:
                self._living[key] = storage.nbytes()
                self._bytes += storage.nbytes()
                weakref.finalize(storage, self._forget, key)
        return self._bytes

    def _forget(self, key: int) -> None:
        self._bytes -= self._living.pop(key)


class CudaGauge(Gauge):  # type: ignore[no-untyped-call]
    """The same by CUDA's allocator, which also sees what an operation needs for itself alone."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self._rest = requested_bytes(device)

    def _before(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.device)

    def _after(self, given: Any, result: Any) -> int:
        # As requested: the allocator's own blocks are rounded, which would not grow evenly with a batch.
        return int(torch.cuda.memory_stats(self.device)["requested_bytes.all.peak"]) - self._rest


def gauge(device: torch.device) -> Gauge:
    """Return what counts on a device."""
    return CudaGauge(device) if device.type == "cuda" else Gauge()


def requested_bytes(device: torch.device) -> int:
    """Return the bytes of all tensors on a CUDA device, and of what libraries such as cuBLAS hold there."""
    return int(torch.cuda.memory_stats(device)["requested_bytes.all.current"])


def bytes_of(tensors: Iterable[Tensor], *, without: Iterable[Tensor] = ()) -> int:
    """Return the bytes of all different storages, less those of some tensors."""
    left_out = {tensor.untyped_storage()._cdata for tensor in without}
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(size for key, size in storages.items() if key not in left_out)


def stretches(timelines: Sequence[Timeline]) -> list[list[int]]:
    """Return the most bytes of each stretch of several timelines of one computation, stretches aligned.

    Operations that occur equally often and in the same order in all timelines begin a stretch; others, such as those
    of an attention in as many groups as a batch takes, or of a solver, lie inside of one.
    """
    counts = [Counter(name for name, _ in timeline) for timeline in timelines]
    marks = {name for name, count in counts[0].items() if all(other[name] == count for other in counts)}
    for timeline in timelines[1:]:
        while parting := _where_they_part(timelines[0], timeline, marks):
            marks -= parting
    return [list(_peaks(timeline, marks)) for timeline in timelines]


def _where_they_part(one: Timeline, other: Timeline, marks: set[str]) -> set[str]:
    """Return the first two marks that differ, or nothing."""
    pairs = zip(*([name for name, _ in timeline if name in marks] for timeline in (one, other)), strict=True)
    return next(({first, second} for first, second in pairs if first != second), set())


def _peaks(timeline: Timeline, marks: set[str]) -> Iterator[int]:
    most = 0
    for name, live in timeline:
        if name in marks:
            yield most
            most = 0
        most = max(most, live)
    yield most


def _tensors(values: Any) -> Iterator[Tensor]:
    return (value for value in tree_iter(values) if isinstance(value, Tensor))
