"""Processes that are started again by the same launcher, whose store still has the addresses of those that ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch.distributed as dist

PROCESS = """
import os, sys, torch
from palbert.runtime.distributed import find_ranks
ranks = find_ranks()
print("starting", flush=True)
with ranks.connected(torch.device("cpu")):
    print(ranks.count(1), flush=True)
    ranks.wait()
    os._exit(0)  # as a process that is killed
"""


def start(rank: int, port: int, attempt: int) -> subprocess.Popen[str]:
    """Start one of two processes as torchrun does, and wait until it has imported everything."""
    launcher = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    environment = os.environ | launcher | place | {"TORCHELASTIC_RESTART_COUNT": str(attempt), "OMP_NUM_THREADS": "1"}
    started = subprocess.Popen(
        [sys.executable, "-c", PROCESS], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None and started.stdout.readline() == "starting\n"
    return started


def test_a_restarted_process_does_not_connect_to_one_that_has_ended() -> None:
    settings: Any = {"is_master": True, "wait_for_workers": False, "timeout": timedelta(seconds=60)}
    store = dist.TCPStore("127.0.0.1", 0, **settings)  # type: ignore[attr-defined]
    processes = []
    try:
        for attempt in (0, 1):
            processes = [start(0, store.port, attempt)]
            time.sleep(1)  # the first one asks for the address of the second, which is not there yet
            processes.append(start(1, store.port, attempt))
            for process in processes:
                said, errors = process.communicate(timeout=120)
                assert (process.returncode, said) == (0, "[2]\n"), errors
    finally:
        for process in processes:
            with suppress(OSError):
                process.kill()
            process.communicate()
