"""How the time and memory of a palbert step grow with rows, tokens, tasks and the size of the encoder.

Random weights and synthetic rows. Unless length is what grows, lengths are mixed as in real pairs. One
thing grows at a time, from the same starting point.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import Stopwatch, Times, describe, machine_facts, write
from synthetic import CLASSES, SHAPES, Steps, make_trainer, plain_recipe

from palbert.runtime.precision import choose_device

ROWS = (8, 16, 32, 64, 128, 256, 512, 1024)
LENGTHS = (16, 32, 64, 128, 256, 512)
TASKS = (1, 2, 4, 8, 16, 32)
ENCODERS = ("minilm", "small", "base", "large")
AXES = ("rows", "length", "tasks in a step", "tasks in turn", "encoder")


def points(arguments: argparse.Namespace) -> Iterator[tuple[str, int | str, dict[str, Any]]]:
    """Return every point: what grows, to which value, and which settings differ from the starting point."""
    ranges: dict[str, tuple[str, Any]] = {
        "rows": ("rows", arguments.rows),
        "length": ("length", arguments.lengths),
        "tasks in a step": ("tasks", arguments.tasks),
        "tasks in turn": ("tasks", arguments.tasks),
        "encoder": ("shape", arguments.encoders),
    }
    samplers = {"tasks in a step": "mixed", "tasks in turn": "round-robin"}
    for axis in arguments.axes:
        key, values = ranges[axis]
        for value in values:
            yield axis, value, {key: value, **({"sampler": samplers[axis]} if axis in samplers else {})}


class Bench:
    """Steps of palbert, with a new trainer each time."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.device = choose_device(arguments.device)
        self.watch = Stopwatch(self.device)

    def measure(
        self,
        *,
        rows: int | None = None,
        length: int | None = None,
        tasks: int = 1,
        shape: str | None = None,
        sampler: str = "mixed",
    ) -> dict[str, Any]:
        """Return time, tokens and memory of a step; settings that are not given are those of the starting point."""
        chosen = self.arguments
        values = plain_recipe(
            device=str(self.device), batch_size=rows or chosen.batch_size, capture=chosen.palbert, sampler=sampler
        )
        values["tasks"] = {f"task{number}": {**CLASSES, "max_length": length or 128} for number in range(tasks)}
        # Every task has its turn, with at least as many batches as requested.
        batches = max(chosen.batches, tasks) if sampler == "round-robin" else chosen.batches
        times = Times()
        with self.watch.memory() as memory:
            trainer = make_trainer(values, shape=SHAPES[shape or chosen.shape], batches=chosen.batches, length=length)
            work = Steps(trainer, batches)
            self.watch.warm_up(work, 2)
            for _ in range(chosen.rounds):
                self.watch.time(work, times)
        return {**times.medians(), "tokens": work.tokens(), **memory, "execution": work.summary()}


def parse(given: list[str] | None) -> argparse.Namespace:
    """Parse the command line; on the CPU, ranges are small by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--shape", choices=SHAPES, help="the encoder at the starting point; base on CUDA")
    parser.add_argument("--batch-size", type=int, help="rows of a task at the starting point; 32 on CUDA")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=AXES)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--lengths", type=int, nargs="+")
    parser.add_argument("--tasks", type=int, nargs="+")
    parser.add_argument("--encoders", nargs="+", choices=SHAPES)
    parser.add_argument("--batches", type=int, help="different batches of each task; 6 on CUDA")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--palbert", choices=("auto", "off"), default="auto", help="how palbert captures steps")
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file, as results come in")
    arguments = parser.parse_args(given)
    cuda = choose_device(arguments.device).type == "cuda"
    defaults: dict[str, tuple[Any, Any]] = {
        "shape": ("base", "tiny"),
        "batch_size": (32, 4),
        "rows": (ROWS, ROWS[:3]),
        "lengths": (LENGTHS, LENGTHS[:3]),
        "tasks": (TASKS, TASKS[:3]),
        "encoders": (ENCODERS, ("tiny",)),
        "batches": (6, 2),
    }
    for name, (on_cuda, on_cpu) in defaults.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, on_cuda if cuda else on_cpu)
    return arguments


def main(given: list[str] | None = None) -> None:
    """Measure; print a table and one JSON line."""
    arguments = parse(given)
    bench = Bench(arguments)
    facts: dict[str, Any] = {
        "benchmark": "growth",
        "shape": arguments.shape,
        "batch_size": arguments.batch_size,
        "palbert": arguments.palbert,
        **machine_facts(bench.device),
        "points": [],
    }
    print("| what grows | to | step, ms | in a run, ms | tokens a step | memory |\n|---|---|---|---|---|---|")
    for axis, value, differs in points(arguments):
        try:
            found: dict[str, Any] = bench.measure(**differs)
            memory = f"{found['reserved_bytes'] / 2**30:.2f} GiB" if "bytes" in found else "–"
            times = f"{found['seconds'] * 1e3:8.2f} | {found['run_seconds'] * 1e3:8.2f}"
            print(f"| {axis:15} | {value:>6} | {times} | {found['tokens']:9,.0f} | {memory} |", flush=True)
        except Exception as error:  # perhaps out of memory: keep the smaller points
            found = {"error": describe(error)}
            print(f"| {axis:15} | {value:>6} | {found['error']} |", flush=True)
        gc.collect()
        facts["points"].append({"axis": axis, "value": value, **found})
        write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
