"""Loading recipes: by file and name, and written recipes that read as the same."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe import load
from palbert.recipe.load import dump_recipe, find_recipe, list_recipes, load_recipe, make_recipe
from palbert.tasks.catalog import SAMPLES

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]

ROOT = Path(__file__).parents[3]
OURS = [
    path for path in (ROOT / "recipes").rglob("*.toml") if "description" in load.read_toml(path)
]  # tables have none
SHIPPED = sorted([*load.BUILTIN_FOLDER.glob("*.toml"), *OURS])
SST = {"data": "samples", "tasks": ["sst"]}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_loads(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.parent != load.BUILTIN_FOLDER:  # its data may be elsewhere
        monkeypatch.setenv("PALBERT_DATA", str(tmp_path))
    recipe = load_recipe(path, check_files=path.parent == load.BUILTIN_FOLDER)
    assert recipe.tasks
    assert recipe.description


def test_the_demo_loads_by_name() -> None:
    recipe = load_recipe("demo")
    assert list(recipe.tasks) == list(SAMPLES)
    assert recipe == load_recipe(load.BUILTIN_FOLDER / "demo.toml")
    assert all(Path(source.path).is_file() for task in recipe.tasks.values() for source in (*task.train, *task.dev))


def test_the_list_holds_built_in_recipes_and_those_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: WriteFile
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    write(tmp_path / "recipes", 'description = "Mine."', "mine.toml")
    write(tmp_path / "recipes", "= broken", "broken.toml")
    listed = dict(list_recipes())
    assert listed["demo"] == load_recipe("demo").description
    assert listed["recipes/mine.toml"] == "Mine."
    assert listed["recipes/broken.toml"].startswith("not valid TOML")


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('data = "samples"\ntasks = ["sst"]\n', encoding="utf-8-sig")
    assert list(load_recipe(path).tasks) == ["sst"]


def test_an_unknown_recipe_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RecipeError, match=r"No recipe file 'dmeo'.*Did you mean 'demo'\?"):
        find_recipe("dmeo")


def test_a_repeated_table_is_refused_with_the_file(tmp_path: Path, write: WriteFile) -> None:
    path = write(tmp_path, 'data = "samples"\n[tasks.sst]\n[tasks.sts]\n[tasks.sst]\n')
    with pytest.raises(RecipeError, match=r"my\.toml: not valid TOML: .*sst"):
        load_recipe(path)


@pytest.mark.parametrize("content", [b"seed = ", b"seed = '\xff'"], ids=["syntax", "not UTF-8"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "my.toml").write_bytes(content)
    with pytest.raises(RecipeError, match=r"my\.toml: not valid TOML"):
        load_recipe(tmp_path / "my.toml")


OWN = {
    "kind": "pair",
    "target": "number",
    "range": [-1, 1],
    "text": ["a", "b"],
    "label": "score",
    "id": "row",
    "train": ["train.csv", {"path": "more.tsv", "text": ["x", "y"], "label": "z", "labels": "x0.25", "quoting": "on"}],
    "dev": "dev.csv",
    "labels": {"yes": 1, "no": -1, "neither": 0.5, "?": "drop", "with space": 0, 'quote"d': 0, "ünï": 0},
    "pair_input": "siamese",
    "head": {"name": "cosine", "scale": 2.0},
    "loss": "my_module:Huber",
    "weight": 0.5,
    "batch_size": 4,
}


@pytest.mark.parametrize(
    "values",
    [
        SST,
        {"data": "samples", "tasks": sorted(SAMPLES)},
        {"data": "hub", "tasks": ["snli", "quora"]},
        {"tasks": {"own": OWN}},
        {"data": "samples", "tasks": {"sst": {}, "sts": {"range": None, "labels": "×0.5"}}},
        {**SST, "training": {"clip": math.inf, "sampler": {"name": "annealed", "decay": 0.5}}},
        {**SST, "training": {"steps_per_epoch": 3, "gradients": "my.gradients:Mine"}},
        {**SST, "optimizer": {"schedule": {"name": "stlr", "warmup": 0.2}, "head_learning_rate": 1e-3}},
        {**SST, "encoder": {"name": "a/b@main", "dropout": 0.0}, "description": 'a "quoted" line\n and 中文'},
        {**SST, "provenance": {"versions": {"torch": "2"}, "data_sha256": {"/a b/c.csv": "0f"}}},
    ],
    ids=["sst", "samples", "hub", "own", "nothing", "clip", "steps", "rates", "encoder", "provenance"],
)
def test_a_recipe_written_and_read_again_is_the_same(own_data: Path, values: dict[str, Any], write: WriteFile) -> None:
    recipe = make_recipe(values, folder=own_data)
    elsewhere = own_data / "elsewhere"
    elsewhere.mkdir()
    assert load_recipe(write(elsewhere, dump_recipe(recipe))) == recipe


def test_a_written_recipe_holds_every_default() -> None:
    text = dump_recipe(make_recipe({**SST, "training": {"auto": False}}))
    for line in ("epochs = 3", "weight_decay = 0.01", 'pooling = "cls"', 'loss = "cross-entropy"', 'device = "auto"'):
        assert line in text.splitlines()


def test_an_override_of_an_automatic_recipe_leaves_the_rest_automatic() -> None:
    values = {"data": "samples", "tasks": ["sst"]}
    assert load_recipe(values, overrides=["training.epochs=2"]).training.auto
    assert not load_recipe(values, overrides=["training.epochs=2", "training.auto=false"]).training.auto
    assert not load_recipe({**values, "training": {"epochs": 2}}, overrides=["training.batch_size=2"]).training.auto


@pytest.mark.parametrize("name", ["rows.txt", "rows.ndjson", "missing.xls"])
def test_a_file_of_unknown_kind_is_no_recipe(name: str, tmp_path: Path) -> None:
    if name.startswith("rows"):
        (tmp_path / name).write_text("text\n")
    with pytest.raises(RecipeError, match=r"expected a recipe, \.toml, or a data file\. Data files are: .*\.csv"):
        load_recipe(tmp_path / name)


def test_a_damaged_data_file_is_not_answered_with_a_setting(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('[{"text": "x"')
    with pytest.raises(RecipeError, match="not valid JSON") as caught:
        load_recipe(tmp_path / "rows.json")
    assert caught.value.hint is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a=" + "[" * 100_000, "not valid TOML: the values are nested too deeply"),
        ("seed = " + "9" * 6000, "not valid TOML: Exceeds the limit"),
        ("a" + ".a" * 20_000 + " = 1", "the values are nested too deeply"),
        ("\0", "not valid TOML"),
        ("", "expected at least one task"),
    ],
    ids=["lists", "digits", "tables", "nul", "empty"],
)
def test_a_file_that_is_no_recipe_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text, "utf-8")
    with pytest.raises(RecipeError, match=says):
        load_recipe(tmp_path / "a.toml")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    for name in ("a.csv", "recipe.toml"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(RecipeError, match="not a regular file"):
        load_recipe(tmp_path / "a.csv")
    with pytest.raises(RecipeError, match="not a regular file"):
        load.read_toml(tmp_path / "recipe.toml")
    with pytest.raises(RecipeError, match="no such file"):
        load.read_toml(tmp_path / "other.toml")


@pytest.mark.parametrize("section", ["training", "optimizer"])
@pytest.mark.parametrize("value", [0, "", [], False])
def test_a_section_that_is_no_table_is_refused(section: str, value: Any, refusal: Refusal) -> None:
    assert [line.split(": ")[1] for line in refusal({**SST, section: value})] == [section]


@pytest.mark.parametrize("value", [10**9 + 1, 2**63, 10**30, 10**5000, True, math.inf, "9" * 5000], ids=range(7))
@pytest.mark.parametrize(
    "key", ["epochs", "steps_per_epoch", "batch_size", "accumulation", "log_every", "save_every", "patience"]
)
def test_a_count_beyond_any_use_is_refused(key: str, value: Any, refusal: Refusal) -> None:
    [line] = refusal({**SST, "training": {key: value}})
    assert line.split(": ")[1] == f"training.{key}" and len(line) < 300


@pytest.mark.parametrize(
    ("key", "most"),
    [("epochs", 10**6), ("steps_per_epoch", 10**7), ("batch_size", 10**6), ("accumulation", 10**6)],
)
def test_what_needs_memory_by_its_size_has_a_limit(key: str, most: int, refusal: Refusal) -> None:
    make_recipe({**SST, "training": {"batch_size": 10**6, key: most}})
    assert len(refusal({**SST, "training": {key: most + 1}})) == 1


def test_a_seed_is_any_whole_number_that_torch_takes(refusal: Refusal) -> None:
    assert make_recipe({**SST, "seed": 2**63 - 1}).seed == 2**63 - 1
    assert len(refusal({**SST, "seed": 2**63})) == 1
