"""Paths: where relative ones start, and which files are missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]


def test_missing_files_are_all_named(tmp_path: Path, refusal: Refusal) -> None:
    lines = refusal({"data": str(tmp_path), "tasks": ["sst", "sts"]})
    assert [line.split(": ")[1] for line in lines] == [
        "tasks.sst.train",
        "tasks.sst.dev",
        "tasks.sts.train",
        "tasks.sts.dev",
    ]
    assert lines[0].endswith(f"no such file: {tmp_path / 'ids-sst-train.csv'}")


@pytest.mark.parametrize("name", ["/data/" + "a" * 300 + ".csv", "/data/" + "[" * 3000 + ".csv"])
def test_an_absolute_name_that_no_file_system_allows_is_a_problem_of_the_recipe(name: str, refusal: Refusal) -> None:
    task = {"kind": "single", "target": "number", "range": [0, 1], "text": "text", "train": name, "dev": name}
    lines = refusal({"tasks": {"own": task}})
    assert any("tasks.own.train" in line and "longer than file systems allow" in line for line in lines)


def test_a_task_without_files_is_refused_with_what_to_set(refusal: Refusal) -> None:
    lines = refusal({"tasks": ["sst"]})
    assert [line.split(": ")[1] for line in lines] == ["tasks.sst.train"]
    assert all("no file given" in line and 'data = "samples"' in line for line in lines)


def test_relative_files_start_at_the_recipe(own_data: Path, monkeypatch: pytest.MonkeyPatch, write: WriteFile) -> None:
    text = '[tasks.own]\nkind = "single"\ntarget = "number"\ntext = "a"\ntrain = "train.csv"\ndev = "./dev.csv"\n'
    monkeypatch.chdir("/")
    task = load_recipe(write(own_data, text)).tasks["own"]
    assert (task.train[0].path, task.dev[0].path) == (str(own_data / "train.csv"), str(own_data / "dev.csv"))


def test_relative_files_start_at_the_data_folder(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_DATA", str(own_data))
    own = {"kind": "single", "target": "number", "text": "a", "train": "train.csv", "dev": "dev.csv"}
    recipe = make_recipe({"data": "$MY_DATA", "tasks": {"own": own}}, folder=Path("/"))
    assert recipe.tasks["own"].dev[0].path == str(own_data / "dev.csv")


def test_paths_in_environment_variables_start_at_the_current_folder(
    own_data: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_data.parent)
    monkeypatch.setenv("MY_DATA", own_data.name)
    monkeypatch.setenv("MY_ENCODER", str(tiny_encoder))
    own = {"kind": "single", "target": "number", "text": "a", "train": "train.csv", "dev": "$MY_DATA/dev.csv"}
    recipe = make_recipe({"data": "$MY_DATA", "encoder": "$MY_ENCODER", "tasks": {"own": own}}, folder=Path("/"))
    assert (recipe.tasks["own"].train[0].path, recipe.tasks["own"].dev[0].path) == (
        str(own_data / "train.csv"),
        str(own_data / "dev.csv"),
    )
    assert recipe.encoder.name == str(tiny_encoder)


def test_an_encoder_folder_is_looked_for_next_to_the_recipe_and_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, next_to_it = tmp_path / "here", tmp_path / "next_to_it"
    for folder in (here / "one", here / "both", next_to_it / "both", here / "minilm"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    found = {
        name: make_recipe({"data": "samples", "tasks": ["sst"], "encoder": name}, folder=next_to_it).encoder.name
        for name in ("one", "both", "minilm", "bert-base-uncased")
    }
    assert found == {
        "one": str(here / "one"),
        "both": str(next_to_it / "both"),
        **{n: n for n in ("minilm", "bert-base-uncased")},
    }


def test_an_unset_variable_in_a_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_DATA", raising=False)
    with pytest.raises(RecipeError, match=r"'\$MY_DATA'.*not set"):
        make_recipe({"data": "$MY_DATA", "tasks": ["sst"]})


def test_a_folder_with_a_dollar_sign_is_a_folder(own_data: Path) -> None:
    odd = own_data / "a$b"
    odd.mkdir()
    for name in ("train.csv", "dev.csv"):
        (odd / name).write_text("a\nx\n")
    own = {"kind": "single", "target": "number", "text": "a", "train": "train.csv", "dev": "dev.csv"}
    recipe = make_recipe({"data": str(odd), "tasks": {"own": own}})
    assert recipe.tasks["own"].dev[0].path == str(odd / "dev.csv")


def test_plain_text_starts_at_the_data_folder_or_next_to_the_recipe(tmp_path: Path, write: WriteFile) -> None:
    (tmp_path / "rows").mkdir()
    for folder in (tmp_path, tmp_path / "rows"):
        (folder / "mine.txt").write_text("a text")
    files = 'train = "mine.csv"\ndev = "mine.csv"\nkind = "single"\ntarget = "binary"\ntext = "text"\n'
    (tmp_path / "rows" / "mine.csv").write_text("text,label\na,1\n")
    own = f'data = "rows"\n[pretraining]\ntext = "mine.txt"\n[tasks.mine]\n{files}'
    samples = 'data = "samples"\ntasks = ["sst"]\n[pretraining]\ntext = ["mine.txt"]\n'
    for text, expected in [(own, tmp_path / "rows"), (samples, tmp_path)]:
        recipe = load_recipe(write(tmp_path, text))
        assert recipe.pretraining and recipe.pretraining.text == (str(expected / "mine.txt"),)
        (tmp_path / "again.toml").write_text(dump_recipe(recipe), "utf-8")
        assert load_recipe(tmp_path / "again.toml") == recipe


def test_missing_plain_text_is_reported_with_all_other_problems(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("# a text")
    values = {"data": "samples", "tasks": {"sst": {"dev": "none.tsv"}}}
    with pytest.raises(RecipeError) as caught:
        make_recipe({**values, "pretraining": {"text": ["none.txt", "mine.md"]}}, folder=tmp_path)
    assert len(caught.value.message.splitlines()) == 3
    assert f"recipe: pretraining.text: no such file: {tmp_path / 'none.txt'}" in caught.value.message
    assert f"expected .txt files with one text per line, found {tmp_path / 'mine.md'}" in caught.value.message


def test_a_pattern_stands_for_all_files_that_fit_by_name(tmp_path: Path, write: WriteFile) -> None:
    folder = tmp_path / "[shards]"
    (folder / "deep").mkdir(parents=True)
    for name in ("part-2.csv", "part-1.csv", "part-3.jsonl", "deep/part-4.csv", "odd[1].csv"):
        (folder / name).touch()
    own = {"kind": "single", "target": "number", "text": "a", "train": ["**/part-*.csv", "odd[1].csv", "part-?.jsonl"]}
    recipe = make_recipe({"tasks": {"own": {**own, "dev": "10%"}}}, folder=folder)
    names = ["deep/part-4.csv", "part-1.csv", "part-2.csv", "odd[1].csv", "part-3.jsonl"]
    assert [source.path for source in recipe.tasks["own"].train] == [str(folder / name) for name in names]


def test_the_settings_of_a_pattern_are_those_of_each_of_its_files(tmp_path: Path) -> None:
    for name in ("a-1.csv", "a-2.csv"):
        (tmp_path / name).touch()
    own = {"kind": "single", "target": "number", "text": "a", "train": {"path": "a-*.csv", "labels": "x4"}}
    recipe = make_recipe({"tasks": {"own": own}}, folder=tmp_path)
    assert [source.labels for source in recipe.tasks["own"].train] == ["x4", "x4"]


def test_a_pattern_that_no_file_fits_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    own = {"kind": "single", "target": "number", "text": "a", "train": "part-*.csv"}
    [line] = refusal({"tasks": {"own": own}})
    assert "no such file" in line and "part-*.csv" in line


def test_urls_stay_as_they_are(tmp_path: Path) -> None:
    own = {"kind": "single", "target": "number", "text": "a", "train": "s3://bucket/part-*.parquet", "dev": "10%"}
    recipe = make_recipe({"tasks": {"own": own}}, folder=tmp_path)
    assert [source.path for source in recipe.tasks["own"].train] == ["s3://bucket/part-*.parquet"]


def test_the_text_of_a_task_is_found_in_the_files_of_a_pattern(tmp_path: Path) -> None:
    for name in ("part-1.csv", "part-2.csv"):
        (tmp_path / name).write_text("words,label\n" + "".join(f"some words {n},{n % 2}\n" for n in range(20)))
    recipe = make_recipe({"tasks": {"own": {"train": "part-*.csv"}}}, folder=tmp_path)
    assert recipe.tasks["own"].text == ("words",)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("a\0b.csv", "a path cannot hold the character NUL"),
        ("x" * 5000, "the name is longer than file systems allow"),
        ("a/" * 3000, "the name is longer than file systems allow"),
        ("~nobody-of-this-name/a.csv", "there is no such user"),
        ("na\udcefve.csv", "the name is not UTF-8"),
    ],
    ids=["nul", "long name", "long path", "user", "not UTF-8"],
)
@pytest.mark.parametrize("place", ["data", "encoder", "train", "teachers", "text"])
def test_a_path_that_cannot_exist_is_refused_with_its_place(place: str, path: str, says: str, refusal: Refusal) -> None:
    values: dict[str, Any] = {"data": "samples", "tasks": {"sst": {}}}
    if place in ("train", "teachers"):
        values["tasks"] = {"own": {"train": path}} if place == "train" else {"sst": {"teachers": path}}
    else:
        values |= {"pretraining": {"text": path}} if place == "text" else {place: path}
    found = [line for line in refusal(values) if says in line]
    assert len(found) == 1 and place in found[0].partition("'")[0]
