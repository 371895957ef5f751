"""Several processes replay their steps as CUDA graphs and communicate in between."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

WORKER = Path(__file__).with_name("captured.py")
CASES: dict[str, dict[str, Any]] = {
    "one task a step": {"training": {"sampler": "round-robin"}},
    "all tasks in a step": {},
    "pcgrad": {"training": {"gradients": "pcgrad"}},
    "pal": {"adapters": {"name": "pal", "size": 12, "heads": 2}},
    "pal and pcgrad": {"adapters": {"name": "pal", "size": 12, "heads": 2}, "training": {"gradients": "pcgrad"}},
    "accumulation": {"training": {"accumulation": 2}},
    "fewer rows than processes": {"training": {"batch_size": 1}},
    "simcse": {"objectives": [{"name": "simcse", "dropout": 1e-9}]},
}


@pytest.fixture(scope="module")
def results(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Train all cases with one process, with one by NCCL, and with two on one device by gloo."""
    folder = tmp_path_factory.mktemp("captured")
    plain: dict[str, Any] = {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder), "dropout": 0.0, "attention_dropout": 0.0},
        "tasks": {name: {"dropout": 0.0} for name in ("sst", "quora", "sts")},
        "optimizer": {"learning_rate": 1e-3, "epsilon": 1e-3},
    }
    training = {"epochs": 1, "steps_per_epoch": 24, "batch_size": 8, "sampler": "mixed"}
    cases = {
        name: {**plain, **case, "training": {**training, **case.get("training", {})}} for name, case in CASES.items()
    }
    (folder / "cases.json").write_text(json.dumps(cases))
    run(folder, "cuda:0", size=1, alone=True)
    run(folder, "cuda", size=1)
    run(folder, "cuda:0", size=2)
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*-of-*.json")}


def run(folder: Path, device: str, *, size: int, alone: bool = False) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), device],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **({} if alone else {**meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)})},
        )
        for rank in range(size)
    ]
    try:
        for process in processes:
            said, _ = process.communicate(timeout=300)
            assert process.returncode == 0, said
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("who", ["0-of-1", "0-of-2"])
@pytest.mark.parametrize("case", CASES)
def test_captured_steps_of_processes_equal_those_of_one(
    results: dict[str, dict[str, Any]], case: str, who: str
) -> None:
    expected, found = results["0-of-1-alone"][case]["off"], results[who][case]["auto"]
    for one, other in zip(expected["losses"], found["losses"], strict=True):
        assert other == pytest.approx(one, rel=5e-3, abs=1e-4)
    torch.testing.assert_close(torch.tensor(found["weights"]), torch.tensor(expected["weights"]), rtol=0, atol=2e-5)


@pytest.mark.parametrize("who", ["0-of-1", "0-of-2", "1-of-2"])
@pytest.mark.parametrize("case", CASES)
def test_most_steps_of_processes_are_replayed(results: dict[str, dict[str, Any]], case: str, who: str) -> None:
    found = results[who][case]
    if case == "simcse" and who != "0-of-1":  # its rows are exchanged within the step, which only NCCL can record
        assert found["auto"]["replayed"] == 0
        assert "communicates with other processes" in found["auto"]["obstacle"]
    else:
        assert found["auto"]["replayed"] >= 12, found["auto"]["obstacle"]
    assert found["off"]["replayed"] == 0


@pytest.mark.parametrize("case", CASES)
def test_processes_that_replay_have_the_same_weights_to_the_last_bit(
    results: dict[str, dict[str, Any]], case: str
) -> None:
    assert results["0-of-2"][case]["auto"]["weights"] == results["1-of-2"][case]["auto"]["weights"]
