"""Runners: train runs one after the other in this process, or several at a time in child processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import cycle, islice

import torch

from palbert.registry.trust import is_trusting
from palbert.verbs.tuning.trials import Decide, Job, Outcome, run_here
from palbert.verbs.tuning.worker import Worker

NextJob = Callable[[], Job | None]
"""Returns what to train next; None if there is nothing more."""
DecideFor = Callable[[Job], Decide]
"""Returns what decides about the evaluations of a run."""


def run_all(next_job: NextJob, decide: DecideFor, *, at_a_time: int) -> Iterator[tuple[Job, Outcome]]:
    """Train until there is nothing more; yield each run when it ends.

    Raises:
        KeyboardInterrupt: Ctrl-C; all runs have stopped with a checkpoint.
    """
    if at_a_time == 1:
        while (job := next_job()) is not None:
            yield job, run_here(job, decide(job))
    else:
        yield from _run_in_children(next_job, decide, at_a_time)


def _run_in_children(next_job: NextJob, decide: DecideFor, at_a_time: int) -> Iterator[tuple[Job, Outcome]]:
    workers = [Worker(environment, trust=is_trusting()) for environment in environments(at_a_time)]
    free, running = workers[:], dict[Future[Outcome], tuple[Job, Worker]]()
    pool = ThreadPoolExecutor(at_a_time)
    try:
        while True:
            while free and (job := next_job()) is not None:
                worker = free.pop(0)
                running[pool.submit(worker.run, job, decide(job))] = job, worker
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, worker = running.pop(future)
                free.append(worker)
                yield job, future.result()
    finally:  # at the end there is nothing to stop
        for _, worker in running.values():
            worker.stop()
        try:
            pool.shutdown(cancel_futures=True)
        finally:
            for worker in workers:
                worker.close()


def environments(count: int) -> list[dict[str, str]]:
    """Return the environment variables of several processes: their share of the cores, and one of the GPUs each.

    Processes that each use every core slow each other down many times over. A setting of the user's takes precedence.
    """
    threads = (
        {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // count))}
    )
    gpus = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = visible if len(visible) == gpus else [str(number) for number in range(gpus)]
    shares = [{"CUDA_VISIBLE_DEVICES": name} for name in names] if gpus > 1 else [{}]
    return [{**threads, **share} for share in islice(cycle(shares), count)]
