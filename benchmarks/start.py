"""Time of commands in their own processes: the help, one prediction for one sentence, and a service until it answers.

In addition to wall-clock time there is processor time, which other programs on the machine hardly affect.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import torch
from measuring import machine_facts, write

import palbert
from palbert.model.pretrained import resolve_encoder

TEXT = "A quiet little triumph."
TRANSFORMERS = (
    "from transformers import pipeline; print(pipeline('text-classification', {folder!r}, device='cpu')({text!r}))"
)
SENTENCES = (
    "from sentence_transformers import SentenceTransformer as S; print(S({folder!r}, device='cpu').encode({text!r}))"
)


def trained(encoder: str, place: Path) -> Path:
    """Train one step, to have a run for predictions."""
    changes = [f"encoder={encoder}", "training.epochs=1", "training.steps_per_epoch=1", "run.tensorboard=false"]
    return palbert.train("demo", out=place / "run", overrides=changes).path


def commands(run: Path, encoder: str) -> dict[str, list[str]]:
    """Return the commands to start."""
    python, folder = sys.executable, str(resolve_encoder(encoder))
    return {
        "python, nothing": [python, "-c", "pass"],
        "palbert --help": [python, "-m", "palbert", "--help"],
        "python, torch imported": [python, "-c", "import torch"],
        "palbert predict": [python, "-m", "palbert", "predict", str(run), "--task", "sst", "--text", TEXT],
        "palbert serve": [python, "-m", "palbert", "serve", str(run), "--port", "0", "--audit", "off"],
        "transformers pipeline": [python, "-c", TRANSFORMERS.format(folder=folder, text=TEXT)],
        "sentence-transformers encode": [python, "-c", SENTENCES.format(folder=folder, text=TEXT)],
    }


def measure(command: list[str]) -> tuple[float, float]:
    """Return the wall-clock and processor seconds of one start; a service is ended as soon as it answers."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    if "serve" in command:
        wall = serve_once(command) - start
    else:
        subprocess.run(command, check=True, capture_output=True)
        wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def serve_once(command: list[str]) -> float:
    """Start a service, wait until it answers, and end it; return when it answered."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "Serving" in line)
    address = re.search(r"http://[^ ]+", line)
    assert address is not None
    with urllib.request.urlopen(f"{address.group()}/readyz", timeout=60) as answer:
        answer.read()
    answered = time.perf_counter()
    process.terminate()
    process.communicate(timeout=60)
    return answered


def main() -> None:
    """Start all in turn, so that a busy machine affects all alike; print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="a run with a task sst; by default one is trained")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        started = commands(arguments.run or trained(arguments.encoder, Path(place)), arguments.encoder)
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in started}
        for number in range(arguments.repeats + 1):
            for name, command in started.items():
                seconds = measure(command)
                if number:  # the first round fills the disk cache
                    measured[name].append(seconds)
    wall = {name: statistics.median(each[0] for each in values) for name, values in measured.items()}
    processor = {name: statistics.median(each[1] for each in values) for name, values in measured.items()}
    print(f"{'':30}{'clock':>10}{'processor':>12}")
    for name in started:
        print(f"{name:30}{wall[name]:8.2f} s{processor[name]:10.2f} s")
    facts = {
        "benchmark": "start",
        "encoder": Path(arguments.encoder).name,
        "seconds": wall,
        "processor_seconds": processor,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
        **machine_facts(
            torch.device("cpu"),
            **{name: importlib.metadata.version(name) for name in ("transformers", "sentence-transformers")},
        ),
    }
    write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
