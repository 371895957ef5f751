"""Two machines: two network namespaces joined by a virtual cable, each with a launcher or a process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from safetensors.torch import load_file

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
LOST = "lost the connection to another process"
LIMIT = 240
"""Seconds after which a test fails; on a free machine each takes 20 to 40."""


def ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


class Machines:
    """Two namespaces with one address each, and what was started in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [f"palbert-{os.getpid()}-{number}" for number in (1, 2)]
        self.started: list[subprocess.Popen[bytes]] = []

    def connect(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        first, second = self.names
        ip("link", "add", "cable", "netns", first, "type", "veth", "peer", "name", "cable", "netns", second)
        for number, name in enumerate(self.names, 1):
            ip("-n", name, "addr", "add", f"10.231.7.{number}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def cut(self) -> None:
        ip("-n", self.names[0], "link", "set", "cable", "down")

    def run(self, machine: int, *command: Any, **environment: str) -> None:
        """Start a command on the first (0) or second (1) machine."""
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "cable"}
        with (self.folder / f"log-{len(self.started)}").open("wb") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.names[machine], *map(str, command)],
                env=os.environ | own | environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.started.append(process)

    def launch(self, machine: int, *arguments: Any, restarts: int = 0, fault: str = "KILL nobody 0") -> None:
        """Start a launcher with one process, as the guide says."""
        options = ["--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", restarts, "--rdzv-id", "test"]
        options += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "10.231.7.1:29555", "--rdzv-conf"]
        options += [f"is_host={1 - machine}", "--local-addr", f"10.231.7.{machine + 1}"]
        own = {"PALBERT_FAULT": fault, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.run(machine, *TORCHRUN, *options, *arguments, **own)

    def wait(self, number: int) -> tuple[int, str]:
        """Return the exit code of what was started, and what was said there."""
        self.wait_for(lambda: self.started[number].poll() is not None)
        return self.started[number].returncode, self.said(number)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, [self.said(number) for number in range(len(self.started))]
            time.sleep(0.1)

    def said(self, number: int) -> str:
        return (self.folder / f"log-{number}").read_text("utf-8", errors="replace")

    def remove(self) -> None:
        for name in self.names:
            for number in ip("netns", "pids", name, check=False).stdout.split():
                with suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGKILL)
            ip("netns", "del", name, check=False)
        for process in self.started:
            process.wait()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    if shutil.which("ip") is None:
        pytest.skip("needs ip, from the package iproute2")
    made = Machines(tmp_path)
    try:
        try:
            made.connect()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"needs the right to make network namespaces: {error.stderr.strip()}")
        yield made
    finally:
        made.remove()


@pytest.fixture
def recipe(tiny_recipe: dict[str, Any], tmp_path: Path) -> Path:
    """Write a recipe of twelve steps that saves every second one."""
    tiny_recipe["training"] |= {"save_every": 2}
    tiny_recipe["optimizer"]["schedule"] = "faulty:Faulty"
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(tiny_recipe), "utf-8")
    return path


def test_two_machines_train_the_weights_of_one_also_when_one_is_lost_and_replaced(
    machines: Machines, recipe: Path, tmp_path: Path
) -> None:
    alone, both = tmp_path / "alone", tmp_path / "both"
    train = ("-m", "palbert", "train", recipe, "--auto-resume", "--out")
    machines.launch(0, *train, both, restarts=2)
    machines.launch(1, *train, both, restarts=2, fault="KILL-MACHINE any 7")
    machines.wait(1)  # the second machine is lost
    machines.launch(1, *train, both, restarts=2)
    machines.run(0, *TORCHRUN, "--standalone", "--nproc-per-node", 2, *train, alone, GLOO_SOCKET_IFNAME="lo")
    for number in (0, 2, 3):
        code, said = machines.wait(number)
        assert code == 0, said
    weights = [load_file(run / "checkpoints" / "last" / "model.safetensors") for run in (alone, both)]
    assert all(torch.equal(weights[1][name], value) for name, value in weights[0].items())
    assert (both / "report.json").is_file()
    assert "resuming at step 6 of 12" in machines.said(0) + machines.said(2)


def test_the_loss_of_a_machine_ends_the_job_with_one_message(machines: Machines, recipe: Path, tmp_path: Path) -> None:
    train = ("-m", "palbert", "train", recipe, "--out", tmp_path / "run")
    machines.launch(0, *train)
    machines.launch(1, *train, fault="KILL-MACHINE any 7")
    code, said = machines.wait(0)
    assert code == 1 and said.count(LOST) == said.count("error: ") == 1, said


def test_a_cut_cable_ends_the_work_on_both_machines(machines: Machines, recipe: Path, tmp_path: Path) -> None:
    metrics = tmp_path / "run" / "metrics.jsonl"
    train = (HERE / "impatient.py", "train", recipe, "--out", tmp_path / "run", "--set", "training.epochs=10000")
    machines.launch(0, *train)
    machines.launch(1, *train)
    machines.wait_for(lambda: metrics.exists() and '"train"' in metrics.read_text("utf-8"))
    machines.cut()
    machines.wait_for(lambda: all(LOST in machines.said(number) for number in (0, 1)))  # torchrun itself may not end
    assert all(machines.said(number).count("error: ") == 1 for number in (0, 1))


def test_a_process_that_waits_for_another_machine_notices_a_cut_cable(machines: Machines) -> None:
    address = {"MASTER_ADDR": "10.231.7.1", "MASTER_PORT": "29556", "WORLD_SIZE": "2"}
    for rank in (0, 1):
        machines.run(rank, sys.executable, HERE / "waiting.py", RANK=str(rank), **address)
    machines.wait_for(lambda: all("connected" in machines.said(rank) for rank in (0, 1)))
    machines.cut()
    code, said = machines.wait(1)
    assert code == 1 and f"Process 1 of 2 {LOST}" in said
