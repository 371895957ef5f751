"""Dry runs: everything is loaded and checked, nothing is written, and a table shows the memory of a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import palbert
from palbert.errors import DeviceError, RecipeError
from palbert.recipe.load import make_recipe
from palbert.reporting.display import shown_bytes
from palbert.terminal import print_memory

Cli = Callable[..., Any]
Write = Callable[..., Path]
PARTS = ["parameters", "gradients", "optimizer", "other", "activations", "graphs"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_command_prints_a_table_and_writes_nothing(
    cli: Cli, write_recipe: Write, tiny_recipe: dict[str, Any], tmp_path: Path
) -> None:
    recipe = write_recipe(tiny_recipe)
    result = cli("train", recipe, "--dry-run", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    header, line = result.out.splitlines()[:2]
    assert all(part in header for part in (*PARTS, "predicted peak", "measured"))
    assert "MiB" in line and "Peak memory of a step" in result.out and "\nTime: about " in result.out
    assert list(tmp_path.iterdir()) == [recipe]


def test_the_parts_add_up_and_the_worst_phase_is_named(tiny_recipe: dict[str, Any]) -> None:
    training = {"epochs": 1, "steps_per_epoch": 2}
    tiny_recipe["phases"] = [
        {"name": "heads", "training": {**training, "trains": ["heads"]}},
        {"name": "all", "training": {**training, "batch_size": 32}},
    ]
    found = palbert.dry_run(make_recipe(tiny_recipe))
    assert [phase.phase for phase in found.phases] == ["heads", "all"]
    assert found.worst.phase == "all" and found.summary["worst"] == 1
    assert found.phases[1].load.step in (3, 4)
    for phase in found.summary["phases"]:
        assert phase["predicted"]["total"] == sum(phase["predicted"][part] for part in PARTS)
        assert phase["measured"] > 0


def test_the_pretraining_phase_counts_the_memory_of_the_waiting_model(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["pretraining"] = {"steps_per_epoch": 2}
    first, tasks = palbert.dry_run(make_recipe(tiny_recipe)).phases
    assert (first.phase, first.load.sets) == ("pretraining", ("mlm",))
    assert first.predicted.other >= tasks.predicted.parameters


def test_a_dry_run_refuses_what_training_refuses(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["tasks"]["sst"] = {"metrics": ["pearson-of-nothing"]}
    with pytest.raises(RecipeError, match="metrics"):
        palbert.dry_run(make_recipe(tiny_recipe))


def test_several_processes_are_refused(tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.verbs.dry_run.find_ranks", lambda: type("Ranks", (), {"size": 2}))
    with pytest.raises(DeviceError, match="one process"):
        palbert.dry_run(make_recipe(tiny_recipe))


def test_the_table_says_that_a_step_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    predicted = dict.fromkeys((*PARTS, "total"), 2**30)
    phase = {"phase": "1", "step": 7, "sets": ["sst", "sts"], "tokens": 5, "predicted": predicted, "measured": None}
    facts = {"device": "cuda", "precision": "bf16", "capacity": 2**31, "measured_by": "nothing", "worst": 0}
    print_memory({**facts, "phases": [phase]})
    assert "does not fit measured" in (printed := capsys.readouterr().out)
    assert "sst + sts" in printed and "on cuda with 2.00 GiB (bf16)" in printed


def test_bytes_are_printed_in_readable_units() -> None:
    assert shown_bytes(3 * 2**19) == "1.5 MiB"
    assert shown_bytes(5 * 2**29) == "2.50 GiB"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_steps_measure_the_same_after_other_runs_in_one_process(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["run"] = {**tiny_recipe.get("run", {}), "device": "cuda"}
    larger = {**tiny_recipe, "training": {**tiny_recipe["training"], "batch_size": 64}}
    first = palbert.dry_run(make_recipe(tiny_recipe)).worst
    palbert.dry_run(make_recipe(larger))
    again = palbert.dry_run(make_recipe(tiny_recipe)).worst
    assert first.measured and again.measured == pytest.approx(first.measured, rel=0.2)
    assert first.measured >= first.predicted.parameters + first.predicted.optimizer


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_no_graphs_are_predicted_where_a_step_cannot_be_captured(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["run"] = {**tiny_recipe.get("run", {}), "device": "cuda"}
    assert palbert.dry_run(make_recipe(tiny_recipe)).worst.predicted.graphs > 0
    tiny_recipe["training"].update(sampler="mixed", gradients={"name": "pcgrad", "memory": "recompute"})
    assert palbert.dry_run(make_recipe(tiny_recipe)).worst.predicted.graphs == 0
