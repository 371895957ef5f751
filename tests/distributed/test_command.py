"""torchrun -m palbert train: one run folder and one report, as without torchrun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from safetensors.torch import load_file

import palbert
from palbert.errors import StoppedError
from palbert.terminal import how_to_continue, is_first_process


@pytest.fixture
def recipe(tiny_recipe: dict[str, Any], tmp_path: Path) -> Path:
    """Write a recipe without dropout, so that rounding errors stay small."""
    tiny_recipe["encoder"] |= {"dropout": 0.0, "attention_dropout": 0.0}
    tiny_recipe["tasks"] = {name: {"dropout": 0.0} for name in tiny_recipe["tasks"]}
    tiny_recipe["optimizer"] |= {"epsilon": 1e-3}
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(tiny_recipe), "utf-8")
    return path


def files_of(run: Path) -> set[str]:
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}


def test_torchrun_writes_the_run_that_one_process_writes(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = tmp_path / "together"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*launcher, "-m", "palbert", "train", str(recipe), "--out", str(together)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # no test reads this report
    try:
        alone = palbert.train(recipe, out=tmp_path / "alone").path
        out, err = process.communicate(timeout=120)
    finally:
        process.terminate()
    assert process.returncode == 0, err
    assert out.count("Overall") == out.count("Report:") == 1
    assert err.count("overall") == 1  # the header of one table of scores
    assert files_of(together) == files_of(alone)
    for name, weight in load_file(alone / "checkpoints" / "last" / "model.safetensors").items():
        other = load_file(together / "checkpoints" / "last" / "model.safetensors")[name]
        torch.testing.assert_close(other, weight, rtol=0, atol=2e-5)
    reports = [json.loads((run / "report.json").read_text("utf-8")) for run in (alone, together)]
    assert reports[1]["overall"] == pytest.approx(reports[0]["overall"], abs=0.02)
    assert reports[1]["metrics"] == reports[0]["metrics"]


def test_the_way_to_continue_starts_as_many_processes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert is_first_process()
    stop = StoppedError(Path("run"), verb="train")
    assert how_to_continue(stop).startswith("Continue with: palbert train run/recipe.toml")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "0")
    assert is_first_process()
    assert how_to_continue(stop).startswith("Continue with: torchrun --nproc-per-node 4 -m palbert train run/")
    monkeypatch.setenv("RANK", "3")
    assert not is_first_process()
