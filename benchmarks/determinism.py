"""A training step with run.deterministic and without, on the same batches; and whether results repeat."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from statistics import median

import torch
from measuring import Stopwatch
from synthetic import SHAPES, Shape, Steps, make_trainer, plain_recipe

from palbert.runtime.determinism import choose_workspace, deterministic
from palbert.runtime.precision import choose_device


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON line: seconds per step in both modes, their ratio, and which modes gave equal weights twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--size", type=int, default=32, help="rows per step")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args(arguments)
    device = choose_device(given.device)
    choose_workspace(device)
    shape, watch = SHAPES[given.shape], Stopwatch(device)

    def mode(asked: bool) -> AbstractContextManager[None]:
        return deterministic(device, asked=asked)

    steps = {asked: prepare(str(device), shape, given.size, given.batches) for asked in (False, True)}
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(given.rounds + 2):  # captured steps are ready after two
        for asked, own in steps.items():
            watch.wait()
            start = time.perf_counter()
            with mode(asked):
                run(own)
            watch.wait()
            if number >= 2:
                times[asked].append((time.perf_counter() - start) / given.batches)
    repeats = {}
    for asked in steps:
        found = []
        for _ in range(2):
            again = prepare(str(device), shape, given.size, given.batches)
            with mode(asked):
                run(again)
            found.append([parameter.detach().clone() for parameter in again.trainer.parameters])
        repeats[asked] = all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    seconds = {asked: median(each) for asked, each in times.items()}
    facts = {"device": str(device), "shape": given.shape, "size": given.size, "threads": torch.get_num_threads()}
    facts |= {"default": seconds[False], "deterministic": seconds[True], "ratio": seconds[True] / seconds[False]}
    print(json.dumps({**facts, "default_repeats": repeats[False], "deterministic_repeats": repeats[True]}))


def prepare(device: str, shape: Shape, size: int, batches: int) -> Steps:
    """Return the first steps of a new trainer with the same weights and rows every time."""
    return Steps(make_trainer(plain_recipe(device=device, batch_size=size), shape=shape, batches=batches), batches)


def run(steps: Steps) -> None:
    """Do all steps once."""
    for number in range(len(steps.batches)):
        steps.step(number)


if __name__ == "__main__":
    main()
