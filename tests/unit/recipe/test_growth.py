"""The recipe of a growth: what it takes from the run, what from the file of new tasks, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.growth import grown_recipe
from palbert.recipe.load import dump_recipe, make_recipe, read_toml
from palbert.recipe.schema import Recipe

Values = dict[str, Any]
ROWS: Values = {"train": "sst-train.tsv", "dev": "sst-dev.tsv", "text": "sentence", "label": "sentiment"}
FILE: Values = {"data": "samples", "tasks": {"tone": {**ROWS, "kind": "single", "target": "number"}}}


def run(**more: Any) -> Recipe:
    values = {"data": "samples", "seed": 5, "tasks": ["sst", "quora"], "overall": "mean", **more}
    return make_recipe(values)


def grow(recipe: Recipe, **more: Any) -> Recipe:
    return grown_recipe(recipe, "minilm", {**FILE, **more}, folder=Path.cwd(), name="new.toml")


def test_a_grown_recipe_starts_from_the_run_and_trains_the_new_tasks_alone() -> None:
    grown = grow(run(objectives=["rdrop"], pretraining={}))
    assert (grown.encoder.name, grown.encoder.keep, grown.encoder.frozen) == ("minilm", ("heads",), True)
    assert (list(grown.tasks), grown.seed, grown.overall) == (["sst", "quora", "tone"], 5, "mean")
    assert not grown.objectives and grown.pretraining is None
    [stage] = grown.stages
    assert list(stage.tasks) == ["tone"] and stage.training.trains == ("heads",)
    assert (stage.training.epochs, stage.optimizer.head_learning_rate) == (10, 1e-3)


def test_a_grown_recipe_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    grown = grow(run(adapters={"name": "lora", "rank": 2}), adapters="lora")
    (tmp_path / "recipe.toml").write_text(dump_recipe(grown), "utf-8")
    assert make_recipe(read_toml(tmp_path / "recipe.toml")) == grown


def test_settings_of_the_file_come_first() -> None:
    grown = grow(run(), seed=7, training={"epochs": 2}, optimizer={"head_learning_rate": 0.1}, run={"device": "cpu"})
    assert (grown.seed, grown.run.device) == (7, "cpu")
    assert (grown.stages[0].training.epochs, grown.stages[0].optimizer.head_learning_rate) == (2, 0.1)


def test_open_shapes_read_means_and_start_as_probes() -> None:
    pair = {"train": "quora-train.tsv", "text": ["sentence1", "sentence2"], "label": "is_duplicate", "kind": "pair"}
    pair |= {"target": "binary", "bad_rows": "drop"}
    grown = grow(run(), tasks={**FILE["tasks"], "same": pair, "own": {**FILE["tasks"]["tone"], "head": "mlp"}})
    shapes = {name: (task.pooling.name, task.head.name, task.head_start) for name, task in grown.tasks.items()}
    assert shapes["tone"] == ("mean", "linear", "probe") and shapes["same"] == ("mean", "compare", "probe")
    assert shapes["own"] == ("cls", "mlp", "random") and grown.tasks["same"].siamese


@pytest.mark.parametrize(
    ("of_run", "of_file", "named"),
    [
        (None, "pal", ("tone",)),
        ({"name": "lora", "rank": 2}, None, ("sst", "quora")),
        ({"name": "lora", "rank": 2}, "lora", ("sst", "quora", "tone")),
        ({"name": "lora", "rank": 2, "tasks": ["quora"]}, {"name": "lora", "rank": 2}, ("quora", "tone")),
        ({"name": "lora", "per_task": False}, None, ()),  # the new task is read through the adapter of all
        ({"name": "lora", "per_task": False, "tasks": ["sst"]}, None, ("sst",)),
    ],
)
def test_adapters_of_the_run_stay_and_those_of_new_tasks_are_added(
    of_run: Any, of_file: Any, named: tuple[str, ...]
) -> None:
    grown = grow(run(**({"adapters": of_run} if of_run else {})), **({"adapters": of_file} if of_file else {}))
    assert grown.adapters is not None and grown.adapters.tasks == named
    assert grown.adapters.options == ({"rank": 2} if of_run and "rank" in of_run else {})
    assert ("adapters" in grown.encoder.keep) == (of_run is not None)


@pytest.mark.parametrize(
    ("of_run", "of_file", "says"),
    [
        ({"name": "lora", "rank": 2}, "pal", "those of the run are 'lora' (rank 2); found 'pal'"),
        ({"name": "lora", "rank": 2}, {"name": "lora", "rank": 4}, "found 'lora' (rank 4)"),
        ({"name": "lora", "per_task": False}, "lora", "an adapter that tasks share"),
        (None, {"name": "lora", "tasks": ["quora"]}, "names 'quora', which is not a new task"),
    ],
)
def test_adapters_that_do_not_fit_are_refused(of_run: Any, of_file: Any, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        grow(run(**({"adapters": of_run} if of_run else {})), adapters=of_file)
    assert says in str(caught.value)


@pytest.mark.parametrize("key", ["encoder", "relation", "pretraining", "overall", "objectives", "phases", "nonsense"])
def test_sections_about_what_tasks_share_are_refused(key: str) -> None:
    with pytest.raises(RecipeError, match=f"new.toml: a file of new tasks has no '{key}'"):
        grow(run(), **{key: "x"})
    with pytest.raises(RecipeError, match="expected a table of settings"):
        grow(run(), training="auto")
