"""Rows of several processes together are those of one: in evaluations, in contrasts, and after resuming."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("gathering.py")


def run_ranks(folder: Path, what: str, size: int) -> list[dict[str, Any]]:
    """Run the worker in some processes; return what each found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} if size > 1 else {}
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(folder), what],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **({"RANK": str(rank)} if size > 1 else {}), **meeting},
        )
        for rank in range(size)
    ]
    try:
        for process in processes:
            said, _ = process.communicate(timeout=120)
            assert process.returncode == 0, said
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return [json.loads((folder / f"{what}-{rank}-of-{size}.json").read_text()) for rank in range(size)]


@pytest.fixture(scope="module")
def folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gathering")
    lines = [f"{a}\t{b}\t{c}" for a, b, c in zip("abcdefghij", "bcdefghijk", "klmnopqrst", strict=True)]
    triplets = folder / "triplets.tsv"
    triplets.write_text("\n".join(["anchor\tpositive\tnegative", *lines]) + "\n")
    plain = {"dropout": 0.0, "attention_dropout": 0.0}

    def recipe(**changes: Any) -> dict[str, Any]:
        return {
            "seed": 1,
            "data": "samples",
            "encoder": {"name": str(tiny_encoder), **plain},
            "tasks": {"sst": {"dropout": 0.0}, "quora": {"dropout": 0.0}, "sts": {"dropout": 0.0}},
            "training": {"epochs": 1, "steps_per_epoch": 7, "batch_size": 5, "sampler": "mixed", "save_every": 2},
            "optimizer": {"learning_rate": 1e-3},
            "run": {"device": "cpu", "tensorboard": False},
            **changes,
        }

    simcse = [{"name": "simcse", "dropout": 1e-9}]  # two equal views: nothing is random
    few = recipe(objectives=simcse)
    few["training"]["batch_size"] = 2
    with_triplets = recipe(objectives=[{"name": "supervised-simcse", "tasks": ["sst"]}])
    with_triplets["tasks"]["sst"]["extra"] = {
        "nli": {"form": "triplets", "train": str(triplets), "text": ["anchor", "positive", "negative"]}
    }
    cases = {
        "plan": recipe(),
        "contrast": {"simcse": recipe(objectives=simcse), "few rows": few, "triplets": with_triplets},
    }
    (folder / "cases.json").write_text(json.dumps(cases))
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """What one, two and three processes found."""
    return {size: run_ranks(folder, "start", size) for size in (1, 2, 3)}


def joined(parts: list[dict[str, Any]], step: str) -> dict[str, list[Any]]:
    """Return the rows of a step of all processes, in the order of ranks."""
    rows: dict[str, list[Any]] = {}
    for part in parts:
        for batch in part[step]:
            for name, own in batch.items():
                rows.setdefault(name, []).extend(own)
    return {name: sorted(own) for name, own in rows.items()}


def assert_same_plan(parts: list[dict[str, Any]], whole: dict[str, Any]) -> None:
    steps = parts[0].keys()
    assert steps <= whole.keys()
    for step in steps:
        assert joined(parts, step) == joined([whole], step), step


@pytest.mark.parametrize("size", [2, 3])
def test_shared_evaluations_have_the_outputs_of_one_process_to_the_last_bit(found: Any, size: int) -> None:
    assert all(part["outputs"] == found[1][0]["outputs"] for part in found[size])


@pytest.mark.parametrize("case", ["simcse", "few rows", "triplets"])
@pytest.mark.parametrize("size", [2, 3])
def test_rows_are_contrasted_with_those_of_all_processes(found: Any, size: int, case: str) -> None:
    alone = found[1][0]["contrast"][case]
    for part in found[size]:
        assert part["contrast"][case]["losses"] == pytest.approx(alone["losses"], abs=1e-6, rel=1e-6)
        assert part["contrast"][case]["gradient"] == pytest.approx(alone["gradient"], abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("size", [2, 3])
def test_the_rows_of_all_processes_are_the_plan_of_one(found: Any, size: int) -> None:
    whole = found[1][0]["whole"]
    assert list(whole) == [str(step) for step in range(1, 8)]
    parts = [part["whole"] for part in found[size]]
    assert_same_plan(parts, whole)
    assert parts[0].keys() == whole.keys()


@pytest.mark.parametrize("size", [1, 3])
def test_another_number_of_processes_resumes_the_same_plan(found: Any, folder: Path, size: int) -> None:
    resumed = f"resumed-by-{size}"
    shutil.copytree(folder / "begun-2", folder / resumed)
    parts = [part["rest"] for part in run_ranks(folder, resumed, size)]
    assert list(parts[0]) == ["4", "5", "6", "7"]
    assert_same_plan(parts, found[1][0]["whole"])
