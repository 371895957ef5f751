"""Time and memory of training steps, and the JSON line that a benchmark writes."""

from __future__ import annotations

import gc
import json
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch


class Work(Protocol):
    """Steps that are repeated on the same batches."""

    batches: list[Any]

    def step(self, number: int) -> None:
        """Do one step on a batch that is on the device."""
        ...

    def run(self) -> None:
        """Do a step on each batch as a run does, from host memory."""
        ...


@dataclass
class Times:
    """Seconds of steps."""

    each: list[float] = field(default_factory=list)
    """Steps timed one by one, on batches that are on the device."""
    running: list[float] = field(default_factory=list)
    """The mean of steps timed together, without waiting for the device in between; includes making the batches."""

    def medians(self) -> dict[str, float]:
        """Return the medians of both."""
        return {"seconds": statistics.median(self.each), "run_seconds": statistics.median(self.running)}


class Stopwatch:
    """Time and memory on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cuda = device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device has finished its work."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def warm_up(self, work: Work, passes: int) -> float:
        """Go through the batches a few times; return the seconds of the very first step."""
        start = time.perf_counter()
        work.step(0)
        self.wait()
        first = time.perf_counter() - start
        for number in range(1, passes * len(work.batches)):
            work.step(number % len(work.batches))
        work.run()
        self.wait()
        return first

    def time(self, work: Work, times: Times) -> None:
        """Go through the batches twice: waiting for the device after each step, and only at the end, as a run does."""
        for number in range(len(work.batches)):
            self.wait()
            start = time.perf_counter()
            work.step(number)
            self.wait()
            times.each.append(time.perf_counter() - start)
        start = time.perf_counter()
        work.run()
        self.wait()
        times.running.append((time.perf_counter() - start) / len(work.batches))

    @contextmanager
    def memory(self) -> Iterator[dict[str, float]]:
        """Measure the peak memory inside the block, in bytes, beyond what was in use before; nothing on the CPU.

        `bytes` counts tensors, `reserved_bytes` what torch reserved for them. Once a step is captured, the memory
        that it works in only appears in the latter.
        """
        found: dict[str, float] = {}
        gc.collect()
        if not self.cuda:
            yield found
            return
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device), torch.cuda.memory_reserved(self.device)
        yield found
        found["bytes"] = float(torch.cuda.max_memory_allocated(self.device) - before[0])
        found["reserved_bytes"] = float(torch.cuda.max_memory_reserved(self.device) - before[1])


def machine_facts(device: torch.device, **versions: str) -> dict[str, Any]:
    """Return what a reader needs to know to compare results."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "cuda": device.type == "cuda",
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, **versions},
    }


def describe(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def write(facts: dict[str, Any], path: Path | None) -> None:
    """Write the results so far as one JSON line."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts) + "\n", encoding="utf-8")
