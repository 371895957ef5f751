"""Several processes train like one: the same losses, gradients and weights, up to rounding."""

from __future__ import annotations

import copy
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from palbert.build import make_gradients
from palbert.errors import DeviceError, RecipeError
from palbert.gradients import GradientMethod
from palbert.recipe.load import make_recipe
from palbert.runtime.distributed import ENVIRONMENT, Processes, Ranks, find_ranks
from palbert.training.hooks import read_records

WORKER = Path(__file__).with_name("worker.py")
PCGRAD = {"gradients": "pcgrad"}
RECOMPUTE = {"gradients": {"name": "pcgrad", "memory": "recompute"}}
ALIKE: dict[str, dict[str, Any]] = {
    "annealed": {"sampler": "annealed"},
    "mixed": {"sampler": "mixed"},
    "pcgrad": {"sampler": "mixed", **PCGRAD},
    "pcgrad, cut in two": {"sampler": "mixed", **PCGRAD, "accumulation": 2},
    "pcgrad, recomputed": {"sampler": "mixed", **RECOMPUTE},
    "pcgrad, recomputed, one task a step": {"sampler": "annealed", **RECOMPUTE},
    "mgda": {"sampler": "mixed", "gradients": "mgda"},
    "uneven": {"sampler": "mixed", "batch_size": 5, "accumulation": 2},
    "balanced by uncertainty": {"sampler": "mixed", "balance": "uncertainty"},
    "balanced by means": {"sampler": "annealed", "balance": "normalised"},
    "fewer rows than processes": {"sampler": "mixed", "batch_size": 1},
    "fewer rows than processes, pcgrad": {"sampler": "mixed", "batch_size": 1, **PCGRAD},
    "fewer rows than processes, recomputed": {"sampler": "mixed", "batch_size": 1, **RECOMPUTE},
}
"""The training section of recipes without dropout."""
STAGED: dict[str, Any] = {
    "adapters": {"name": "low-rank", "size": 4},
    "objectives": [{"name": "simcse", "weight": 0.1}, {"name": "proximal", "weight": 0.1}],
    "phases": [
        {"training": {"trains": ["adapters", "heads"], "steps_per_epoch": 4}},
        {"training": {"steps_per_epoch": 6}},
    ],
}
"""A run of ten steps with state outside the model, stopped in the middle of its second phase."""


def recipe_of(values: dict[str, Any], training: dict[str, Any], *, dropout: float) -> dict[str, Any]:
    """Change the tiny recipe; a large epsilon keeps Adam from making steps out of rounding errors."""
    changed = copy.deepcopy(values)
    changed["encoder"] |= {"dropout": dropout, "attention_dropout": dropout}
    changed["tasks"] = {name: {"dropout": dropout} for name in changed["tasks"]}
    changed["training"] |= {"epochs": 1, "steps_per_epoch": 10, "clip": 0.5, **training}
    changed["optimizer"] |= {"epsilon": 1e-3}
    return changed


def start(folder: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


@pytest.fixture(scope="module")
def results(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train all cases with two processes and with one; return the folder with the results."""
    folder = tmp_path_factory.mktemp("ranks")
    values = {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder)},
        "tasks": {"sst": {}, "quora": {}, "sts": {}},
        "training": {"batch_size": 8, "log_every": 2},
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }
    cases = {name: recipe_of(values, training, dropout=0.0) for name, training in ALIKE.items()}
    cases["dropout"] = recipe_of(values, {"sampler": "mixed", **PCGRAD}, dropout=0.2)
    for name, case in cases.items():
        (folder / name).mkdir()
        (folder / name / "case.json").write_text(json.dumps(case))
    resumable = recipe_of(values, {"sampler": "mixed", **PCGRAD, "average": "ema", "save_every": 3}, dropout=0.2)
    (folder / "resumable.json").write_text(json.dumps(resumable | STAGED))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [start(folder), *(start(folder, RANK=rank, LOCAL_RANK=rank, **meeting) for rank in "01")]
    try:
        for process in processes:
            said, _ = process.communicate(timeout=120)
            assert process.returncode == 0, said
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return folder


def record(results: Path, case: str, who: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results / case / f"{who}.json").read_text())
    return found


@pytest.mark.parametrize("case", ALIKE)
def test_two_processes_train_the_same_weights_as_one(results: Path, case: str) -> None:
    alone = load_file(results / case / "0-of-1.safetensors")
    together = load_file(results / case / "0-of-2.safetensors")
    for name, weight in alone.items():
        torch.testing.assert_close(together[name], weight, rtol=0, atol=2e-5, msg=f"{name}: {{}}".format)


@pytest.mark.parametrize("case", ALIKE)
def test_two_processes_report_the_same_losses_and_cosines_as_one(results: Path, case: str) -> None:
    alone, *together = (record(results, case, who)["steps"] for who in ("0-of-1", "0-of-2", "1-of-2"))
    assert together[0] == together[1]
    assert len(alone) == 10
    for one, other in zip(alone, together[0], strict=True):
        assert other["losses"] == pytest.approx(one["losses"], rel=1e-3)
        assert other["cosines"] == pytest.approx(one["cosines"], abs=1e-3)
        if "fewer" not in case:  # a row that does not count is still computed
            assert other["tokens"] == one["tokens"]


@pytest.mark.parametrize("case", [*ALIKE, "dropout"])
def test_all_processes_have_the_same_weights_to_the_last_bit(results: Path, case: str) -> None:
    first, second = (results / case / f"{rank}-of-2.safetensors" for rank in (0, 1))
    assert first.read_bytes() == second.read_bytes()


def test_each_process_draws_its_own_dropout(results: Path) -> None:
    alone, first, second = (record(results, "dropout", who)["generator"] for who in ("0-of-1", "0-of-2", "1-of-2"))
    assert first == alone
    assert second != first


def test_a_run_of_two_processes_stopped_and_resumed_equals_an_uninterrupted_one(results: Path) -> None:
    undisturbed, resumed = results / "undisturbed", results / "resumed"
    for name in ("model", "optimizer", "objective", "random"):
        files = [run / "checkpoints" / "last" / f"{name}.safetensors" for run in (undisturbed, resumed)]
        one, other = map(load_file, files)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), name
    lines = [
        [
            {key: line.get(key) for key in ("kind", "step", "losses", "overall")}
            for line in read_records(run / "metrics.jsonl")
        ]
        for run in (undisturbed, resumed)
    ]
    assert lines[0] == lines[1]
    assert [line["step"] for line in lines[0] if line["kind"] == "train"] == [2, 4, 6, 8, 10]


def test_collective_calls_return_the_same_to_all_processes(results: Path) -> None:
    first, second = (json.loads((results / f"calls-{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    sums = [[5.0, 5.0], [[3.0, 3.0]] * 3, 3.0, None]
    assert first == {
        "sums": sums,
        "in pieces": sums,
        "in place": [[[[3.0] * 2] * 2, "torch.float32"], [[2.0], "torch.float64"], [[3.0] * 4, "torch.float32"]],
        "count": [1, 2, 2],
        "gathered": [[0], [1]],
        "first": [1.0],
        "aligned": [[1.0]],
    }
    assert (results / "order.txt").read_text() == "01"


def test_a_process_finds_itself_in_the_environment_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENVIRONMENT, "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert find_ranks() == Ranks(0, 1)
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    assert find_ranks() == Ranks(0, 1)  # no address: other programs set some of these too
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    assert find_ranks() == Processes(5, 8, local_rank=1, local_size=4)


def test_each_process_needs_its_own_cuda_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    chosen: list[int] = []
    monkeypatch.setattr("torch.cuda.set_device", chosen.append)
    assert Processes(1, 2, local_rank=1, local_size=2)._backend(torch.device("cuda")) == "cpu:gloo,cuda:nccl"
    assert chosen == [1]
    crowd = Processes(0, 3, local_rank=0, local_size=3)
    with pytest.raises(DeviceError, match="3 processes on this machine; there are 2 CUDA devices"):
        crowd._backend(torch.device("cuda"))
    assert crowd._backend(torch.device("cuda:0")) == "gloo"
    with pytest.raises(DeviceError, match="cannot share 'mps'"):
        crowd._backend(torch.device("mps"))


class Ownmade(GradientMethod):
    """A gradient method that does not implement join."""

    def __init__(self, weights: dict[str, float]) -> None:
        pass

    def backward(self, losses: Mapping[str, torch.Tensor]) -> None:
        """Do nothing."""


def test_a_gradient_method_without_support_for_several_processes_is_refused(
    tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "own", SimpleNamespace(made=Ownmade))
    tiny_recipe["training"]["gradients"] = "own:made"
    recipe = make_recipe(tiny_recipe)
    make_gradients(recipe, parameters=[], ranks=Ranks())
    with pytest.raises(RecipeError, match="'own:made' cannot sum the gradients of 2 processes"):
        make_gradients(recipe, parameters=[], ranks=Processes(0, 2))
