"""Runners: train jobs one after the other in this process, or several at a time in child processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import cycle, islice
from queue import SimpleQueue

import torch

from palbert.errors import PalbertError, TrainingError
from palbert.registry.trust import is_trusting
from palbert.reproduction.jobs import Job
from palbert.runtime.children import python_command
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.train import train

Environment = Mapping[str, str]


def run_jobs(jobs: Sequence[Job], *, at_a_time: int) -> Iterator[tuple[Job, str]]:
    """Train all jobs; yield each when it ends, with its error message, which is empty on success."""
    return _run_here(jobs) if at_a_time == 1 else _run_in_children(jobs, at_a_time)


def _run_here(jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
    for job in jobs:
        try:
            job.write_recipe()
            resume = RunFolder(job.run).can_resume
            train(job.recipe, out=job.run, resume=resume, force=not resume)
        except Exception as error:
            yield job, str(error) or type(error).__name__
        else:
            yield job, ""


def _run_in_children(jobs: Sequence[Job], at_a_time: int) -> Iterator[tuple[Job, str]]:
    pool = ThreadPoolExecutor(at_a_time)
    # Processes that each use every core slow each other down many times over. A setting of the user's takes precedence.
    threads = {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // at_a_time))}
    devices: SimpleQueue[Environment] = SimpleQueue()
    for device in islice(cycle(_gpu_environments() or [{}]), at_a_time):
        devices.put(device)
    options = ["--trust"] if is_trusting() else []
    try:
        running = {pool.submit(_run_child, job, devices, threads, options): job for job in jobs}
        for future in as_completed(running):
            try:
                future.result()
            except (PalbertError, OSError) as error:
                yield running[future], str(error)
            else:
                yield running[future], ""
    finally:  # Ctrl-C also reaches the children, which then write a checkpoint
        pool.shutdown(cancel_futures=True)


def _gpu_environments() -> list[Environment]:
    """Return, for each of several GPUs, the environment in which a child sees that one alone."""
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = visible if len(visible) == count else [str(number) for number in range(count)]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names] if count > 1 else []


def _run_child(job: Job, devices: SimpleQueue[Environment], threads: Environment, options: Sequence[str] = ()) -> None:
    """Train one job in a child process; raise TrainingError with the child's own message if it fails."""
    flag = "--resume" if RunFolder(job.run).can_resume else "--force"
    start_palbert = python_command("from palbert.cli import main; main()")
    command = [*start_palbert, "train", str(job.write_recipe()), "--out", str(job.run), flag, *options]
    device = devices.get()
    # A run that names its GPU has to see all of them.
    visible = device if job.recipe.run.device in ("auto", "cuda") else {}
    environment = {**threads, **os.environ, **visible}
    try:
        with job.log.open("ab") as stream:  # earlier attempts stay in the log
            start = stream.tell()
            child = subprocess.run(command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, env=environment)
    finally:
        devices.put(device)
    if child.returncode:
        output = job.log.read_bytes()[start:].decode("utf-8", errors="replace")
        errors = [line for line in output.splitlines() if line.startswith("error: ")]
        message = errors[-1].removeprefix("error: ") if errors else f"ended with exit code {child.returncode}"
        raise TrainingError(f"{message} (log: {job.log})")
