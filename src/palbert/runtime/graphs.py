"""Recorder: work on a CUDA device as graphs that are replayed without Python in between."""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

Found = TypeVar("Found")


class Recorder:
    """Record graphs that share their memory, since they are never replayed at the same time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._generator = torch.cuda.default_generators[self.stream.device.index]
        self._random_state = self._generator

    @property
    def stream(self) -> torch.cuda.Stream:
        """The stream that graphs are recorded on."""
        return _stream(self.device, threading.get_ident())

    def aside(self, work: Callable[[], Found]) -> Found:
        """Do some work on the stream that graphs are recorded on: what it leaves behind belongs there."""
        current = torch.cuda.current_stream(self.device)
        stream = self.stream
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            found = work()
        current.wait_stream(stream)
        return found

    def record(self, work: Callable[[], Found]) -> tuple[torch.cuda.CUDAGraph, Found]:
        """Record some work, which computes nothing; return its graph and where its results will be."""
        graph = torch.cuda.CUDAGraph()
        self._random_state = self._generator.clone_state()

        def recorded() -> Found:
            # Only this thread's calls count: another one makes the next batches meanwhile.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                return work()
            finally:
                graph.capture_end()

        with _without_collection():
            return graph, self.aside(recorded)

    def recover(self) -> None:
        """After a failed recording, give the random generator the state that it had before."""
        torch.cuda.synchronize(self.device)
        self._generator.graphsafe_set_state(self._random_state)


@functools.cache
def _stream(device: torch.device, thread: int) -> torch.cuda.Stream:
    """Return the one stream of a device for all that a thread records: cuBLAS keeps a workspace for every stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from collecting garbage: it might free older graphs, which no recording survives."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
