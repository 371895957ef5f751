"""palbert remove-task: a run without one of its tasks; what remains is as it was, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.verbs.test_add_task import SHORT, TONE

import palbert
from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.runtime.files import sha256
from palbert.verbs.remove_task import recipe_without, without_task

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
MODEL = Path("checkpoints") / "best" / "model.safetensors"


@pytest.mark.parametrize("adapters", [{}, {"adapters": {"name": "lora", "rank": 2}}])
def test_an_added_task_is_removed_without_a_trace(adapters: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    grown = palbert.add_task(trained, {**adapters, "tasks": {"tone": TONE}, "training": SHORT}, out=tmp_path / "grown")
    back = palbert.remove_task(grown, "tone", out=tmp_path / "back")
    assert sha256(back / MODEL) == sha256(trained / MODEL)
    for file in (trained / "predictions").iterdir():
        assert (back / "predictions" / file.name).read_bytes() == file.read_bytes()
    assert back.scores == palbert.Run(trained).scores
    assert back.report["origin"]["verb"] == "remove-task" and back.recipe.adapters is None


def test_a_task_that_was_trained_with_others_is_removed(trained: Path, tmp_path: Path, cli: Cli) -> None:
    result = cli("remove-task", trained, "quora", "--out", tmp_path / "less")
    assert result.code == 0 and "with sst, sts" in result.out
    one, two = palbert.load(trained), palbert.load(tmp_path / "less")
    assert list(two.predict("sst", ["rain and soup"])) == list(one.predict("sst", ["rain and soup"]))
    resumed = cli("train", tmp_path / "less" / "recipe.toml", "--out", tmp_path / "less", "--resume")
    assert resumed.code == 2 and "made from others, and not trained here" in resumed.err
    assert (tmp_path / "less" / MODEL).is_file()
    again = cli("remove-task", trained, "quora", "--out", tmp_path / "less")
    assert again.code == 2 and "Add --force to replace it" in again.err and "--resume" not in again.err
    alone = cli("remove-task", tmp_path / "less", "sts", "--out", tmp_path / "one")
    assert alone.code == 0
    last = cli("remove-task", tmp_path / "one", "sst", "--out", tmp_path / "none")
    assert last.code == 2 and "'sst' is its only task" in last.err and not (tmp_path / "none").exists()
    unknown = cli("remove-task", trained, "stss", "--out", tmp_path / "none")
    assert unknown.code == 2 and "Did you mean 'sts'" in unknown.err


def test_a_run_whose_files_are_gone_loses_a_task_without_a_report(
    run_copy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = run_copy / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace("sst-train.tsv", "gone.tsv"), "utf-8")
    less = palbert.remove_task(run_copy, "quora", out=tmp_path / "less")
    assert "no report" in caplog.text and not (less / "report.json").exists()
    assert less.load().predict("sst", ["rain and soup"])


DESCRIPTION: dict[str, Any] = {"adapters": None, "relation": None, "tasks": {"a": {}, "b": {}, "c": {}}}


def test_a_shared_adapter_passes_to_the_next_task() -> None:
    section = {"name": "lora", "per_task": False, "tasks": []}
    weights = {"adapters.a.down": torch.ones(1), "heads.a.bias": torch.ones(1), "heads.b.bias": torch.ones(1)}
    described, kept = without_task({**DESCRIPTION, "adapters": section}, weights, "a")
    assert kept.keys() == {"adapters.b.down", "heads.b.bias"} and described["adapters"] == section
    _, kept = without_task({**DESCRIPTION, "adapters": section}, weights, "b")
    assert kept.keys() == {"adapters.a.down", "heads.a.bias"}


def test_own_adapters_go_with_their_task() -> None:
    section = {"name": "lora", "per_task": True, "tasks": ["a"]}
    described, kept = without_task({**DESCRIPTION, "adapters": section}, {"adapters.a.down": torch.ones(1)}, "a")
    assert kept == {} and described["adapters"] is None
    section = {**section, "tasks": ["a", "b"]}
    described, kept = without_task({**DESCRIPTION, "adapters": section}, {"adapters.b.down": torch.ones(1)}, "a")
    assert list(kept) == ["adapters.b.down"] and described["adapters"]["tasks"] == ["b"]


def test_a_relational_layer_needs_two_tasks() -> None:
    relation = {"name": "linear", "tasks": ["a", "b"]}
    with pytest.raises(RecipeError, match="'a' and 'b' share a relational layer"):
        without_task({**DESCRIPTION, "relation": relation}, {}, "a")
    described, _ = without_task({**DESCRIPTION, "relation": relation}, {}, "c")
    assert described["relation"] == relation


def test_a_recipe_names_the_removed_task_nowhere() -> None:
    recipe = make_recipe(
        {
            "data": "samples",
            "tasks": ["sst", "quora", "sts"],
            "adapters": {"name": "lora", "tasks": ["sst"]},
            "objectives": [{"name": "smart", "tasks": ["sst"]}, {"name": "rdrop", "tasks": ["sst", "sts"]}, "rdrop"],
            "phases": [{"tasks": ["sst"], "training": {"epochs": 1}}, {"training": {"epochs": 1}}],
        }
    )
    less = recipe_without(recipe, "sst")
    assert list(less.tasks) == ["quora", "sts"] and less.adapters is None and len(less.phases) == 1
    assert [objective.tasks for objective in less.objectives] == [("sts",), ()]
