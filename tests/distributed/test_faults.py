"""Processes that die, fail or are told to stop: how torchrun ends, what is said, and that the run can be continued."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from palbert.training.hooks import read_records

HERE = Path(__file__).parent
LOST = "lost the connection to another process"


@pytest.fixture
def recipe(tiny_recipe: dict[str, Any], tmp_path: Path) -> Path:
    """Write a recipe of twelve steps that saves every second one."""
    tiny_recipe["training"] |= {"save_every": 2}
    tiny_recipe["optimizer"]["schedule"] = "faulty:Faulty"
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(tiny_recipe), "utf-8")
    return path


def torchrun(*arguments: Any, fault: str = "KILL nobody 0", options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run palbert in two processes; return the exit code and what was said."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *options]
    with subprocess.Popen(
        [*launcher, "-m", "palbert", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PALBERT_FAULT": fault},
    ) as process:
        try:
            said, _ = process.communicate(timeout=240)
        finally:
            process.terminate()
    return process.returncode, said


def weights(run: Path) -> bytes:
    return (run / "checkpoints" / "last" / "model.safetensors").read_bytes()


def steps(run: Path) -> list[int]:
    return [record["step"] for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]


def test_a_killed_process_is_restarted_and_the_run_ends_as_if_nothing_had_happened(
    recipe: Path, tmp_path: Path
) -> None:
    whole, restarted = tmp_path / "whole", tmp_path / "restarted"
    code, said = torchrun("train", recipe, "--out", whole)
    assert code == 0, said
    code, said = torchrun("train", recipe, "--out", restarted, fault="KILL 1 7", options=("--max-restarts", "1"))
    assert code == 0, said
    assert "resuming at step 6 of 12" in said and LOST not in said
    assert weights(restarted) == weights(whole)
    assert steps(restarted) == steps(whole)


def test_an_error_of_one_process_is_the_only_one_that_is_reported(recipe: Path, tmp_path: Path) -> None:
    code, said = torchrun("train", recipe, "--out", tmp_path / "run", fault="raise 1 3")
    assert code == 1
    assert said.count("error: ") == said.count("error: KeyError: 'no such thing'") == 1, said
    assert LOST not in said and "gloo" not in said


def test_the_report_of_a_killed_process_is_not_followed_by_others(recipe: Path, tmp_path: Path) -> None:
    code, said = torchrun("train", recipe, "--out", tmp_path / "run", fault="KILL 0 3")
    assert code == 1 and "Signal 9 (SIGKILL)" in said
    assert "error: " not in said, said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "{recipe}", "--set", "training.epochz=4"], "training.epochz: unknown key"),
        (["train", "{recipe}", "--set", "tasks.sst.train={folder}/none.tsv"], "none.tsv"),
        (["train", "{recipe}", "--bogus"], "No such option"),
    ],
    ids=["recipe", "data", "option"],
)
def test_an_error_of_all_processes_is_said_once(
    arguments: list[str], message: str, recipe: Path, tmp_path: Path
) -> None:
    given = [argument.format(recipe=recipe, folder=tmp_path) for argument in arguments]
    code, said = torchrun(*given, "--out", tmp_path / "run")
    assert code == 1 and said.count(message) == 1, said
    assert "exitcode  : 2" in said  # torchrun's own report has the exit code of the process


@pytest.mark.parametrize("fault", ["TERM 1 4", "TERM-LAUNCHER 0 4"])
def test_a_stop_signal_leaves_a_run_that_can_be_continued(fault: str, recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, said = torchrun("train", recipe, "--out", run, fault=fault)
    assert code != 0 and (run / "checkpoints" / "last").exists(), said
    assert "Continue with: torchrun --nproc-per-node 2 -m palbert train" in said
    code, said = torchrun("train", recipe, "--out", run, "--auto-resume")
    assert code == 0 and "resuming at step 5 of 12" in said, said
    assert steps(run) == [2, 4, 6, 8, 10, 12]


def test_auto_resume_begins_a_pretraining_and_leaves_a_complete_one(recipe: Path, tmp_path: Path) -> None:
    command = ["pretrain", recipe, "--out", tmp_path / "new", "--auto-resume"]
    command += ["--set", "pretraining.epochs=1", "--set", "pretraining.steps_per_epoch=2"]
    code, said = torchrun(*command)
    assert code == 0, said
    written = (tmp_path / "new" / "report.json").stat().st_mtime_ns
    assert said.count("held-out texts") == said.count("Encoder: ") == 1
    code, said = torchrun(*command)
    assert code == 0, said
    assert (tmp_path / "new" / "report.json").stat().st_mtime_ns == written
