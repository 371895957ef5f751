"""The smoke recipes: every method, and sensible pairs of them, trained on the sample data with a tiny encoder."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.recipe.load import load_recipe
from palbert.recipe.schema import Recipe
from palbert.registry import (
    ADAPTERS,
    AVERAGES,
    BALANCES,
    GRADIENTS,
    HEADS,
    OBJECTIVES,
    POOLINGS,
    RELATIONS,
    SAMPLERS,
    SCHEDULES,
)
from palbert.training.hooks import read_records

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke"
METHODS = [path for path in sorted(SMOKE.glob("*.toml")) if path.stem != "plain"]


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as on a machine without matplotlib, so that reports take no time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def losses(run: Path) -> list[dict[str, float]]:
    return [record["losses"] for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]


def evaluated(run: Path) -> Any:
    return [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "evaluation"][-1]["tasks"]


@pytest.mark.parametrize("recipe", METHODS, ids=lambda path: path.stem)
def test_a_method_trains_and_makes_a_difference(recipe: Path, plain: Path, tiny_encoder: Path, tmp_path: Path) -> None:
    taught = [name for name, task in load_recipe(recipe).tasks.items() if task.teachers]
    overrides = [f'tasks.{name}.teachers=["{plain}"]' for name in taught]
    overrides += [f"encoder.name={tiny_encoder}", "run.device=cpu"]
    run = palbert.train(recipe, out=tmp_path / "run", overrides=overrides).path
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert 0 < report["overall"] < 1
    assert all(math.isfinite(score) for scores in report["tasks"].values() for score in scores.values())
    assert all(math.isfinite(loss) for line in losses(run) for loss in line.values())
    # An average changes what is evaluated, everything else what is trained.
    assert losses(run) != losses(plain) or evaluated(run) != evaluated(plain)
    assert palbert.load(run).predict("sts", [("A man sings.", "Someone sings.")])


def used(recipe: Recipe) -> set[str]:
    """Name the parts that a recipe is made of."""
    names = {task.head.name for task in recipe.tasks.values()} | {task.pooling.name for task in recipe.tasks.values()}
    for section in (recipe.adapters, recipe.relation, *recipe.objectives):
        names |= {section.name} if section else set()
    for stage in recipe.stages:
        training = stage.training
        chosen = (training.sampler, training.gradients, training.balance, training.average, stage.optimizer.schedule)
        names |= {part.name for part in chosen}
    return names


TABLES = (ADAPTERS, AVERAGES, BALANCES, GRADIENTS, HEADS, OBJECTIVES, POOLINGS, RELATIONS, SAMPLERS, SCHEDULES)


def test_every_method_is_in_a_recipe() -> None:
    everything = set().union(*(used(load_recipe(path)) for path in [*METHODS, SMOKE / "plain.toml"]))
    assert {name for table in TABLES for name in table} <= everything
