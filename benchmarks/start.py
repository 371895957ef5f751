"""How long a command takes in a process of its own: `palbert --help`, and `palbert predict` on one sentence.

A bare `import torch` stands beside them: predict cannot take less. Files that the system has read before are in
memory, as they are for whoever runs the command a second time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from measuring import machine_facts, write

import palbert

RECIPE = """
data = "samples"
tasks = ["sst"]
[training]
epochs = 1
steps_per_epoch = 1
[run]
device = "cpu"
tensorboard = false
"""


def seconds(command: list[str], *, repeats: int) -> float:
    """Return the median time of a command, after a first time that does not count."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main(given: list[str] | None = None) -> None:
    """Measure, and print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--run", type=Path, help="a run with a task sst; unless given, one of a single step is made")
    parser.add_argument("--out", type=Path, help="write the JSON line here too")
    arguments = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as place:
        run = arguments.run
        if run is None:
            (Path(place) / "recipe.toml").write_text(RECIPE, encoding="utf-8")
            run = palbert.train(Path(place) / "recipe.toml", out=Path(place) / "run")
        commands = {
            "import torch": [sys.executable, "-c", "import torch"],
            "palbert --help": [sys.executable, "-m", "palbert", "--help"],
            "palbert predict": [
                sys.executable,
                "-m",
                "palbert",
                "predict",
                str(run),
                "--task",
                "sst",
                "--text",
                "A fine film.",
            ],
        }
        found = {name: seconds(command, repeats=arguments.repeats) for name, command in commands.items()}
    for name, taken in found.items():
        print(f"{name:20}{taken:8.2f} s")
    facts = {"benchmark": "start", **machine_facts(torch.device("cpu")), "seconds": found}
    write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
