"""Recorder: work on a CUDA device as graphs that are replayed without Python in between."""

from __future__ import annotations

import functools
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, TypeVar

import torch

SYNCHRONISES = "called a synchronizing CUDA operation"
"""How torch's warning begins when Python waits for the device."""

Found = TypeVar("Found")


class Graph(Protocol):
    """Recorded work."""

    def replay(self) -> None:
        """Start the work on the device."""
        ...


class Recorder:
    """Record graphs that share their memory, since they are never replayed at the same time."""

    def __init__(self, device: torch.device) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call]  # there are no generators before
        self.device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._generator = torch.cuda.default_generators[self.stream.device.index]
        self._random_state = self._generator

    @property
    def stream(self) -> torch.cuda.Stream:
        """The stream that graphs are recorded on."""
        return _stream(self.device, threading.get_ident())

    def on_recording_stream(self, work: Callable[[], Found]) -> Found:
        """Do some work on the stream that graphs are recorded on, so that recordings can reuse its cached memory."""
        current = torch.cuda.current_stream(self.device)
        stream = self.stream
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            found = work()
        current.wait_stream(stream)
        return found

    def detecting_obstacles(self) -> AbstractContextManager[list[str]]:
        """Return the context in which work is computed before it is recorded; it lists what prevents recording."""
        return nullcontext([])

    def prepare(self) -> None:
        """Get ready for a recording of one or more graphs."""
        self._random_state = self._generator.clone_state()

    def record(self, work: Callable[[], Found]) -> tuple[Graph, Found]:
        """Record some work without computing it; return its graph, and the tensors that replays write results to."""
        graph = torch.cuda.CUDAGraph()

        def recorded() -> Found:
            # Restrict this thread only: another one prepares the next batches at the same time.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                return work()
            finally:
                graph.capture_end()

        with _without_collection():
            return graph, self.on_recording_stream(recorded)

    def finish(self) -> None:
        """Clean up after a recording that succeeded."""

    def recover(self) -> None:
        """After a failed recording, reset the random generator to its state in `prepare`: the work starts again."""
        torch.cuda.synchronize(self.device)
        self._generator.graphsafe_set_state(self._random_state)


@contextmanager
def detect_waits() -> Iterator[list[str]]:
    """List the lines of code that make the host wait for the device, as "file:line"; filled when the context ends."""
    waits: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode("default")
    for warning in caught:
        if str(warning.message).startswith(SYNCHRONISES):
            waits.append(f"{Path(warning.filename).name}:{warning.lineno}")
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@functools.cache
def _stream(device: torch.device, thread: int) -> torch.cuda.Stream:
    """Return the stream for everything a thread records: one only, since cuBLAS keeps a workspace per stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from collecting garbage: it might free older graphs, which breaks a recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
