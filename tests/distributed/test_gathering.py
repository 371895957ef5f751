"""Several processes do together what one does: evaluations, contrasts, further pretraining, and after resuming."""

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
import torch
from safetensors.torch import load_file

from palbert.training.hooks import read_records

WORKER = Path(__file__).with_name("gathering.py")
RESUMED = [(1, 2), (2, 3), (3, 1)]
"""The number of processes that began a run, and that which continues it."""


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
            "optimizer": {"learning_rate": 1e-3, "epsilon": 1e-3},
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
    section = {"steps_per_epoch": 4, "epochs": 2, "batch_size": 5, "learning_rate": 1e-3}
    noisy = recipe(encoder={"name": str(tiny_encoder), "dropout": 0.2})
    pretraining = {
        "pretrained": recipe(pretraining=section),
        "pretrained-by-pairs": recipe(pretraining={**section, "batch_size": 2, "epochs": 1}),
        "pretrained-with-dropout": noisy | {"pretraining": section},
    }
    cases = {
        "plan": recipe(),
        "pretraining": pretraining,
        "contrast": {"simcse": recipe(objectives=simcse), "few rows": few, "triplets": with_triplets},
    }
    (folder / "cases.json").write_text(json.dumps(cases))
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """What one, two and three processes found."""
    return {size: run_ranks(folder, "start", size) for size in (1, 2, 3)}


@pytest.fixture(scope="module")
def resumed(folder: Path, found: Any) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """What the processes found that continued the run and the pretraining of another number of processes."""
    results = {}
    for former, size in RESUMED:
        what = f"resumed-{former}-by-{size}"
        shutil.copytree(folder / f"begun-{former}", folder / what)
        shutil.copytree(folder / f"pretraining-{former}", folder / f"{what}-pretraining")
        results[former, size] = run_ranks(folder, what, size)
    return results


def assert_same_weights(file: Path, expected: Path) -> None:
    weights = load_file(file)
    for name, weight in load_file(expected).items():
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=2e-5, msg=f"{name}: {{}}".format)


def losses(folder: Path) -> list[float]:
    """Return the held-out losses of a pretraining, in order."""
    records = read_records(folder / "metrics.jsonl")
    return [record["tasks"]["mlm"]["loss"] for record in records if record["kind"] == "evaluation"]


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
    whole = found[1][0]["whole"]["rows"]
    assert list(whole) == [str(step) for step in range(1, 8)]
    parts = [part["whole"]["rows"] for part in found[size]]
    assert_same_plan(parts, whole)
    assert parts[0].keys() == whole.keys()


@pytest.mark.parametrize(("former", "size"), RESUMED)
def test_another_number_of_processes_resumes_the_same_plan(resumed: Any, found: Any, former: int, size: int) -> None:
    parts = [part["rest"]["rows"] for part in resumed[former, size]]
    assert list(parts[0]) == ["4", "5", "6", "7"]
    assert_same_plan(parts, found[1][0]["whole"]["rows"])


@pytest.mark.parametrize(("former", "size"), RESUMED)
def test_another_number_of_processes_resumes_to_the_weights_of_one(
    resumed: Any, folder: Path, former: int, size: int
) -> None:
    last = Path("checkpoints") / "last" / "model.safetensors"
    name = f"resumed-{former}-by-{size}"
    assert_same_weights(folder / name / last, folder / "whole-1" / last)
    assert len({part["rest"]["weights"] for part in resumed[former, size]}) == 1


@pytest.mark.parametrize("case", ["pretrained", "pretrained-by-pairs"])
@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_pretrain_the_encoder_of_one(found: Any, folder: Path, size: int, case: str) -> None:
    alone, together = folder / f"{case}-1", folder / f"{case}-{size}"
    assert_same_weights(together / "model.safetensors", alone / "model.safetensors")
    assert losses(together)[0] == losses(alone)[0]  # before training: the same model, to the last bit
    assert losses(together) == pytest.approx(losses(alone), abs=1e-5)
    assert found[size][0][case]["tokens"] == found[1][0][case]["tokens"]


@pytest.mark.parametrize("case", ["pretrained", "pretrained-with-dropout"])
@pytest.mark.parametrize("size", [2, 3])
def test_all_processes_pretrain_the_same_weights_to_the_last_bit(found: Any, size: int, case: str) -> None:
    assert len({part[case]["weights"] for part in found[size]}) == 1


@pytest.mark.parametrize(("former", "size"), RESUMED)
def test_another_number_of_processes_resumes_a_pretraining(resumed: Any, folder: Path, former: int, size: int) -> None:
    name = f"resumed-{former}-by-{size}-pretraining"
    assert_same_weights(folder / name / "model.safetensors", folder / "pretrained-1" / "model.safetensors")
    assert losses(folder / name) == pytest.approx(losses(folder / "pretrained-1"), abs=1e-5)
