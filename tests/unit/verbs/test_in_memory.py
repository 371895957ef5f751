"""Rows in memory: every kind gives the run that a CSV file gives, and its folder keeps what is needed later."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import palbert
from palbert.errors import DataError, RecipeError
from palbert.recipe.load import load_recipe
from palbert.runtime.files import sha256
from palbert.verbs.check import check_data
from palbert.verbs.in_memory import StagedRows, staged

pytestmark = pytest.mark.usefixtures("no_plots")

Values = dict[str, Any]
WORDS = ("the film was good", "the film was bad", "a quiet day", "rain again , and wind", "I paid twice")
ROWS: list[Values] = [
    {"review": f"{WORDS[number % 5]} {WORDS[number % 3]}", "stars": number % 2, "seen": number % 3 == 0}
    for number in range(24)
]
DEV: list[Values] = [{**row, "review": row["review"] + " today"} for row in ROWS[:8]]


@pytest.fixture
def values(tiny_recipe: Values) -> Values:
    """Return a recipe without files."""
    tone = {"kind": "single", "target": "binary", "text": "review", "label": "stars"}
    training = {**tiny_recipe["training"], "epochs": 1, "steps_per_epoch": 2, "batch_size": 4}
    own = {key: value for key, value in tiny_recipe.items() if key != "data"}
    return {**own, "tasks": {"tone": tone}, "training": training}


def weights(run: Any) -> str:
    return sha256(*sorted(Path(run, "checkpoints", "best").glob("*.safetensors")))


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    """Keep the weights of the run from CSV files for all tests."""
    return {}


def from_csv(values: Values, folder: Path) -> str:
    """Train on the same rows in CSV files and return the hash of the weights."""
    files = {}
    for split, rows in (("train", ROWS), ("dev", DEV)):
        pd.DataFrame(rows).to_csv(folder / f"{split}.csv", index=False)
        files[split] = str(folder / f"{split}.csv")
    recipe = {**values, "tasks": {"tone": {**values["tasks"]["tone"], **files}}}
    return weights(palbert.train(recipe, out=folder / "from-csv"))


def columns(rows: list[Values]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def both(make: Callable[[list[Values]], Any]) -> Callable[[], Any]:
    return lambda: {"train": make(ROWS), "dev": make(DEV)}


KINDS: dict[str, Callable[[], Any]] = {
    "dicts": both(lambda rows: rows),
    "generator": both(lambda rows: (row for row in rows)),
    "columns": both(columns),
    "pandas": both(pd.DataFrame),
    "pandas categories": both(lambda rows: pd.DataFrame(rows).astype({"stars": "category"})),
    "polars": both(pl.DataFrame),
    "pyarrow": both(pa.Table.from_pylist),
    "datasets": both(datasets.Dataset.from_list),
    "DatasetDict": lambda: datasets.DatasetDict(
        {"train": datasets.Dataset.from_list(ROWS), "validation": datasets.Dataset.from_list(DEV)}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_gives_the_run_of_a_csv_file(
    kind: str, values: Values, tmp_path: Path, expected: dict[str, str]
) -> None:
    if not expected:
        expected["csv"] = from_csv(values, tmp_path)
    run = palbert.train(values, data={"tone": KINDS[kind]()}, out=tmp_path / "run")
    assert weights(run) == expected["csv"]


@pytest.fixture
def run(values: Values, tmp_path: Path) -> Path:
    return Path(palbert.train(values, data={"tone": {"train": ROWS, "dev": DEV}}, out=tmp_path / "run"))


def test_a_run_keeps_its_rows_and_can_be_moved(run: Path, tmp_path: Path) -> None:
    assert sorted(file.name for file in (run / "data").iterdir()) == ["tone-dev.jsonl", "tone-train.jsonl"]
    text = (run / "recipe.toml").read_text("utf-8")
    assert "data/tone-train.jsonl" in text and str(run) not in text
    before = json.loads((run / "report.json").read_text("utf-8"))
    moved = Path(shutil.move(run, tmp_path / "elsewhere"))
    recipe = load_recipe(moved / "recipe.toml")
    assert recipe.tasks["tone"].train[0].path == str(moved / "data" / "tone-train.jsonl")
    assert recipe.provenance is not None
    assert set(recipe.provenance.data_sha256) == {str(file) for file in (moved / "data").iterdir()}
    assert palbert.evaluate(moved).summary["tasks"] == before["tasks"]


def test_a_stopped_run_continues_with_the_same_rows_only(values: Values, run: Path, tmp_path: Path) -> None:
    same = {"tone": {"train": pd.DataFrame(ROWS), "dev": DEV}}
    assert weights(palbert.train(values, data=same, out=run, resume=True)) == weights(run)
    other = {"tone": {"train": ROWS[1:], "dev": DEV}}
    with pytest.raises(RecipeError, match=r"cannot resume with other settings.*tasks\.tone\.train\.0\.path"):
        palbert.train(values, data=other, out=run, resume=True)
    palbert.train(run / "recipe.toml", out=run, resume=True)
    moved = Path(shutil.move(run, tmp_path / "elsewhere"))
    palbert.train(values, data=same, out=moved, resume=True)


def test_force_replaces_the_rows_of_the_former_run(values: Values, run: Path, tmp_path: Path) -> None:
    palbert.train(run / "recipe.toml", out=run, force=True)  # from its own rows, which stay
    assert len(list((run / "data").iterdir())) == 2
    (run / "data" / "mine.txt").write_text("a note")
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "dev")}
    for split, rows in (("train", ROWS), ("dev", DEV)):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values["tasks"]["tone"] |= files
    palbert.train(values, out=run, force=True)
    assert [file.name for file in (run / "data").iterdir()] == ["mine.txt"]


def test_rows_in_memory_stand_next_to_files_of_a_data_folder_and_samples(tiny_recipe: Values, tmp_path: Path) -> None:
    tiny_recipe["tasks"] = {"sst": {}, "quora": {}}
    tiny_recipe["training"] |= {"epochs": 1, "steps_per_epoch": 2}
    rows = [{"sentence": "a good day", "sentiment": 4}, {"sentence": "a bad day", "sentiment": 0}] * 4
    run = palbert.train(tiny_recipe, data={"sst": rows}, out=tmp_path / "run")
    recipe = load_recipe(Path(shutil.move(run, tmp_path / "moved")) / "recipe.toml")
    assert recipe.data == "samples"
    assert recipe.tasks["sst"].train[0].path == str(tmp_path / "moved" / "data" / "sst-train.jsonl")
    assert "samples" in recipe.tasks["sst"].dev[0].path


def test_bad_rows_are_named_as_python_code_names_them(values: Values, tmp_path: Path) -> None:
    rows = [*ROWS[:3], {"review": "fine", "stars": 7}, *ROWS]
    with pytest.raises(DataError, match=r'^data\["tone"\]\["dev"\], row 3 \(counting from 0\): expected .*found "7"'):
        palbert.train(values, data={"tone": {"train": ROWS, "dev": rows}}, out=tmp_path / "run")
    frame = pd.DataFrame(ROWS).astype({"review": object})
    frame.loc[5, "review"] = None
    with pytest.raises(DataError, match=r"row 5 \(counting from 0\): the column 'review' is empty"):
        palbert.train(values, data={"tone": {"train": frame, "dev": DEV}}, out=tmp_path / "run")
    values["tasks"]["tone"]["text"] = "reviews"
    with pytest.raises(DataError, match=r"""data\["tone"\]\["train"\]: no column 'reviews'.*Did you mean 'review'"""):
        palbert.train(values, data={"tone": {"train": ROWS, "dev": DEV}}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"tune": ROWS}, r"data: the recipe has no task 'tune'\. Known: tone\. Did you mean 'tone'\?"),
        ({"tone": {"train": ROWS, "later": ROWS}}, r'data\["tone"\]: expected the splits .*found \'later\''),
        ({"tone": {"dev": DEV, "validation": DEV}}, "dev rows are given twice"),
        ({"tone": iter(())}, r'data\["tone"\]: expected rows, found none.*only once'),
        ({"tone": "x.csv"}, r"data\[\"tone\"\]: expected rows, found the text 'x.csv'"),
        (ROWS, r'data: expected a dict from tasks to rows, found list\..*data={"tone": rows}'),
    ],
)
def test_wrong_data_is_refused_before_anything_is_written(
    data: Any, message: str, values: Values, tmp_path: Path
) -> None:
    with pytest.raises(palbert.PalbertError, match=message):
        palbert.train(values, data=data, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_of_an_extra_set_can_be_given_in_memory(values: Values) -> None:
    values["tasks"]["tone"]["extra"] = {"more": {"factor": 0.5}}
    with staged({"tone": {"train": ROWS, "dev": DEV, "extra": {"more": ROWS}}}) as rows:
        recipe = rows.load(values)
        assert recipe.tasks["tone"].extra["more"].factor == 0.5
        assert rows.named(recipe.tasks["tone"].extra["more"].train[0].path) == 'data["tone"]["extra"]["more"]'


def test_a_checked_recipe_takes_rows_and_overrides(values: Values) -> None:
    with staged({"tone": {"train": ROWS, "dev": DEV}}) as rows:
        recipe = rows.load(values)
        again = rows.load(recipe, overrides=["seed=7"])
        assert again.seed == 7 and again.tasks == recipe.tasks
    assert StagedRows().load(recipe) is recipe


def test_a_data_check_and_a_dry_run_take_rows_too(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"tone": {"train": ROWS, "dev": pd.DataFrame(DEV)}}
    train, dev = check_data(values, data=data)
    assert (train.rows, dev.rows) == (24, 8)
    assert dev.files == ('data["tone"]["dev"]',)
    assert palbert.dry_run(values, data=data).phases


def test_pretraining_reads_rows_in_memory_as_it_reads_files(values: Values, tmp_path: Path) -> None:
    values["pretraining"] = {"epochs": 1, "steps_per_epoch": 2, "batch_size": 4}
    with staged({"tone": {"train": ROWS, "dev": DEV}}) as rows:
        expected = palbert.pretrain(rows.load(values), out=tmp_path / "from-files")
    data = {"tone": {"train": pd.DataFrame(ROWS), "dev": DEV}}
    found = palbert.pretrain(values, data=data, out=tmp_path / "from-memory")
    assert sha256(found / "model.safetensors") == sha256(expected / "model.safetensors")
    assert (found / "data" / "tone-train.jsonl").is_file()
