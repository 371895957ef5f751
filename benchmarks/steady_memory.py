"""Whether the memory of a run grows with its steps: a small model trains for thousands of steps.

The run evaluates, logs and saves checkpoints as any other. What is measured is the memory that the process has taken
for itself, after a tenth of the steps, when everything has happened once, and at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from large_data import make_encoder, make_words
from measuring import machine_facts, write
from memory_limit import own_memory

import palbert
from palbert.extend import Callback

EPOCHS = 20


class Readings(Callback):
    """Read the memory of the process a hundred times.

    Args:
        every: Steps from one reading to the next.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.steps = 0
        self.bytes: list[int] = []

    def on_step(self, *_: Any) -> None:
        """Count the step, and read the memory."""
        self.steps += 1
        if self.steps % self.every == 0:
            self.bytes.append(own_memory())


def write_rows(path: Path, rows: int, seed: int) -> str:
    """Write rows of a few words with one of two labels."""
    chance, words = random.Random(seed), make_words()[:200]
    lines = (f"{' '.join(chance.choices(words, k=chance.randint(2, 8)))},{chance.randint(0, 1)}" for _ in range(rows))
    path.write_text("\n".join(["text,label", *lines]) + "\n", "utf-8")
    return str(path)


def measure(folder: Path, steps: int) -> dict[str, Any]:
    """Train; return the memory after a tenth of the steps and at the end."""
    make_encoder(folder / "encoder", size=8)
    task = {"kind": "single", "target": "binary", "text": "text", "label": "label"}
    task |= {"train": write_rows(folder / "train.csv", 200, 1), "dev": write_rows(folder / "dev.csv", 40, 2)}
    training = {"epochs": EPOCHS, "steps_per_epoch": steps // EPOCHS, "batch_size": 4, "save_every": steps // 10}
    recipe = {"encoder": str(folder / "encoder"), "tasks": {"small": task}, "training": training}
    readings = Readings(max(steps // 100, 1))
    palbert.train({**recipe, "run": {"device": "cpu"}}, out=folder / "run", progress=False, callbacks=[readings])
    first, last = readings.bytes[len(readings.bytes) // 10], readings.bytes[-1]
    return {"steps": readings.steps, "first_bytes": first, "last_bytes": last, "most_bytes": max(readings.bytes)}


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    arguments = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PALBERT_CACHE", f"{folder}/cache")
        found = measure(Path(folder), arguments.steps)
    first, last = (found[name] / 2**20 for name in ("first_bytes", "last_bytes"))
    print(f"{first:,.1f} MiB after a tenth of {found['steps']:,} steps, {last:,.1f} MiB at the end")
    facts = {"benchmark": "steady_memory", **machine_facts(torch.device("cpu")), **found}
    write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
