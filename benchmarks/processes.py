"""What it costs a training step that processes exchange gradients: with CUDA graphs and without.

One process is compared with one that torchrun started alone, which is connected by NCCL on CUDA, and with one that
exchanges its gradients with itself, on the same batches: the difference is the exchange without the time on a wire.
On CUDA, two processes then share the device by gloo, which copies gradients over the host; there, steps as CUDA graphs
are compared with steps kernel by kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from measuring import Stopwatch, Times, machine_facts, write
from synthetic import SHAPES, Steps, make_trainer, plain_recipe

from palbert.runtime.distributed import Processes, Ranks, find_ranks
from palbert.runtime.precision import choose_device

TIMES = ("seconds", "run_seconds")
ALONE, CONNECTED, EXCHANGING = "one process", "one process of torchrun", "the same, exchanging gradients with itself"


class Exchanging(Processes):
    """A process that exchanges gradients even if it is the only one."""

    @property
    def communicate(self) -> bool:
        """Whether there are other processes to communicate with."""
        return True


def measure(cases: dict[str, Steps], watch: Stopwatch, *, rounds: int) -> dict[str, dict[str, Any]]:
    """Measure some steps in turns."""
    times = {name: Times() for name in cases}
    for work in cases.values():
        watch.warm_up(work, 3)
    for _ in range(rounds):
        for name, work in cases.items():
            watch.time(work, times[name])
    return {name: {**times[name].medians(), "execution": cases[name].summary()} for name in cases}


def steps(arguments: argparse.Namespace, device: str, rows: int, *, ranks: Ranks, capture: str = "auto") -> Steps:
    """Make the steps of a recipe with one task."""
    values = plain_recipe(device=device, batch_size=rows, capture=capture)
    batches = arguments.batches
    return Steps(make_trainer(values, shape=SHAPES[arguments.shape], batches=batches, ranks=ranks), batches)


def compare_exchange(arguments: argparse.Namespace, device: torch.device, rows: int) -> dict[str, Any]:
    """Compare one process with a connected one and with one that exchanges its gradients."""
    ranks = {ALONE: Ranks(), CONNECTED: Processes(0, 1), EXCHANGING: Exchanging(0, 1)}
    cases = {name: steps(arguments, str(device), rows, ranks=each) for name, each in ranks.items()}
    found: dict[str, Any] = measure(cases, Stopwatch(device), rounds=arguments.rounds)
    for each in found.values():
        each |= {f"{key}_ratio": each[key] / found[ALONE][key] for key in TIMES}
    return found


def share_device(arguments: argparse.Namespace, sizes: list[int]) -> dict[str, Any]:
    """Measure two processes that share the device, in processes of their own."""
    # Few steps: all gradients go through the host, which takes about a second.
    given = ["--device", "cuda:0", "--shape", arguments.shape, "--batches", "4", "--rounds", "2"]
    command = [sys.executable, __file__, *given, "--sizes", *map(str, sizes)]
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **meeting, "RANK": rank})
        for rank in "01"
    ]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a process failed")
    found: dict[str, Any] = json.loads(said[0].splitlines()[-1])
    return found


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def measure_shared(arguments: argparse.Namespace) -> None:
    """Do the part of one of two processes; the first prints what it found."""
    ranks, device, found = find_ranks(), torch.device(arguments.device), {}
    with ranks.connected(device):
        for rows in arguments.sizes:
            cases = {
                f"two processes, capture {capture}": steps(
                    arguments, arguments.device, rows, ranks=ranks, capture=capture
                )
                for capture in ("auto", "off")
            }
            found[rows] = measure(cases, Stopwatch(device), rounds=arguments.rounds)
    if ranks.is_first:
        print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # threads of gloo may hold tensors


def parse(given: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--shape", choices=SHAPES, help="base on CUDA, tiny elsewhere")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256], help="rows of a step")
    parser.add_argument("--batches", type=int, default=12, help="different batches of each size")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    arguments = parser.parse_args(given)
    if not arguments.shape:
        arguments.shape = "base" if choose_device(arguments.device).type == "cuda" else "tiny"
    return arguments


def main(given: list[str] | None = None) -> None:
    """Measure; print a table and one JSON line."""
    arguments = parse(given)
    if find_ranks().size > 1:
        measure_shared(arguments)
    device = choose_device(arguments.device)
    facts: dict[str, Any] = {"benchmark": "processes", "shape": arguments.shape, **machine_facts(device), "sizes": {}}
    shared = share_device(arguments, arguments.sizes[:1]) if device.type == "cuda" else {}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    print("| rows | | step, ms | in a run, ms | × one process | in a run |\n|---|---|---|---|---|---|")
    with Processes(0, 1).connected(device):
        for rows in arguments.sizes:
            found = {**compare_exchange(arguments, device, rows), **shared.get(str(rows), {})}
            facts["sizes"][str(rows)] = found
            for name, each in found.items():
                ratios = [f"{each[f'{key}_ratio']:.3f}" if f"{key}_ratio" in each else "–" for key in TIMES]
                shown = " | ".join([f"{each[key] * 1e3:.2f}" for key in TIMES] + ratios)
                print(f"| {rows} | {name} | {shown} |", flush=True)
            write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
