"""Inferred settings: what a recipe leaves open is found in its files, said in the log, and kept in what is written."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.columns import Columns
from palbert.recipe.label_values import LabelValues
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.tasks.catalog import CATALOG
from palbert.tasks.spec import Task

Infer = Callable[..., Task]
REVIEWS = [
    {"id": "1", "review": "Dull and far too long.", "stars": "2"},
    {"id": "2", "review": "A joy from start to end.", "stars": "10"},
    {"id": "3", "review": "Good enough for an evening.", "stars": "2"},
    {"id": "4", "review": "I would watch it again.", "stars": "10"},
]
PAIRS = [
    {"sentence1": f"The dog runs {number}.", "sentence2": f"A cat sleeps {number}.", "label": number % 2}
    for number in range(6)
]


@pytest.fixture
def infer(tmp_path: Path) -> Infer:
    """Write rows to a file and return the task that is trained on it."""

    def task(rows: list[dict[str, Any]], **settings: Any) -> Task:
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        given = {key: value for key, value in settings.items() if value is not None}
        return make_recipe({"tasks": {"own": {"train": "rows.jsonl", **given}}}, folder=tmp_path).tasks["own"]

    return task


def labelled(*labels: Any) -> list[dict[str, Any]]:
    return [{"text": f"text number {number}", "label": label} for number, label in enumerate(labels)]


def test_a_file_alone_is_a_task(infer: Infer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        task = infer(REVIEWS)
    assert (task.kind, task.text, task.label, task.target.name) == ("single", ("review",), "stars", "classes")
    assert task.classes == ("2", "10")  # numbers by value
    assert 'rows.jsonl: label = "stars", text = ["review"], target = "classes", classes = ["2", "10"]' in caplog.text


def test_two_texts_are_a_pair(infer: Infer) -> None:
    assert infer(PAIRS).kind == "pair" and infer(PAIRS).text == ("sentence1", "sentence2")
    assert infer(PAIRS, text=["sentence2", "sentence1"]).kind == "pair"
    assert infer(PAIRS, text="sentence2").kind == "single"


@pytest.mark.parametrize(
    ("labels", "target", "classes"),
    [
        (["spam", "ham", "Eggs", "spam", "ham", "Eggs"], "classes", ("Eggs", "ham", "spam")),
        (["1", "0", "1.0", "0"], "classes", ("0", "1")),
        ([1.5, 2, 3, 2.5], "number", ()),
        (["1.5", "n/a", "1.5", "n/a"], "classes", ("1.5", "n/a")),
        ([["joy", "fear"], [], ["joy"]], "multilabel", ("fear", "joy")),
        ([True, False, True, False], "classes", ("0", "1")),
    ],
)
def test_target_and_classes_follow_from_the_labels(
    infer: Infer, labels: list[Any], target: str, classes: tuple[str, ...]
) -> None:
    task = infer(labelled(*labels))
    assert (task.target.name, task.classes, task.range) == (target, classes, None)


@pytest.mark.parametrize(
    ("labels", "settings", "classes"),
    [
        (["no", "1", "yes"], {"target": "binary"}, ("no", "yes")),
        (["ham", "spam", "ham"], {"target": "binary"}, ("ham", "spam")),
        (["a|b", "", "c"], {"target": "multilabel"}, ("a", "b", "c")),
        (["a;b", "c"], {"target": {"name": "multilabel", "separator": ";"}}, ("a", "b", "c")),
        (["pos", "neg", "?"], {"labels": {"pos": "good", "neg": "bad", "?": "drop"}}, ("bad", "good")),
        (["0", "1", "1"], {"labels": "x4"}, ("0", "4")),
    ],
)
def test_classes_that_are_not_listed_are_found(
    infer: Infer, labels: list[str], settings: dict[str, Any], classes: tuple[str, ...]
) -> None:
    assert infer(labelled(*labels), **settings).classes == classes


def test_what_a_recipe_says_is_not_inferred(infer: Infer) -> None:
    task = infer(labelled("1", "2", "1"), classes=["2", "1"])
    assert task.classes == ("2", "1") and task.target.name == "classes"
    assert infer(labelled("1", "2", "1"), range=[0, 5]).target.name == "number"
    assert infer(labelled("1", "2", "1"), target="number").classes == ()


def test_only_rows_marked_as_train_say_what_the_classes_are(infer: Infer) -> None:
    rows = [
        {**row, "part": part} for row, part in zip(labelled("a", "b", "c"), ["train", "train", "test"], strict=True)
    ]
    assert infer(rows, split="part", text="text").classes == ("a", "b")


TITLED = [{**row, "title": f"Film no {number}"} for number, row in enumerate(REVIEWS)]
SEEN = [{**row, "seen": number % 2} for number, row in enumerate(REVIEWS)]
BARE = [{"text": f"text {number}"} for number in range(4)]


@pytest.mark.parametrize(
    ("rows", "settings", "expected"),
    [
        (
            TITLED,
            {},
            "text: several columns of rows.jsonl could be the text: 'review', 'title'. Set text = ",
        ),
        (SEEN, {}, "label: several columns of rows.jsonl could be the label: 'stars', 'seen'. Set label = \"stars\"."),
        (BARE, {"text": "text"}, "label: no column of rows.jsonl is left for the label; it has text."),
        (labelled("a", "a"), {}, "classes: expected two or more classes in the column 'label', found only 'a'."),
        (labelled(*map(str, range(30))), {}, "label: the column 'label' has 30 different values in 30 rows"),
    ],
)
def test_what_cannot_be_inferred_is_refused_with_the_line_to_write(
    infer: Infer, rows: list[dict[str, Any]], settings: dict[str, Any], expected: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        infer(rows, **settings)
    assert str(caught.value).startswith(f"recipe: tasks.own.{expected}") and len(str(caught.value).splitlines()) == 1


def test_many_whole_numbers_are_refused_with_both_remedies(infer: Infer) -> None:
    with pytest.raises(RecipeError, match='Set target = "number", or label = "another column", or list the classes'):
        infer(labelled(*range(40)))


def test_classes_with_a_single_row_are_warned_of(infer: Infer, caplog: pytest.LogCaptureFixture) -> None:
    infer(labelled("a", "b", "a", "c", "b"))
    assert "tasks.own: 1 of 3 classes have a single row" in caplog.text


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    values = {"tasks": {"one": {"train": "none.csv"}, "sst": {"weight": -1}}, "data": str(tmp_path), "seeds": 1}
    with pytest.raises(RecipeError) as caught:
        make_recipe(values)
    assert "tasks.one.train: No such file" in str(caught.value) and "tasks.one.text" not in str(caught.value)
    assert "tasks.sst.weight" in str(caught.value) and "seeds: unknown key" in str(caught.value)


def test_files_that_do_not_exist_are_not_looked_for_where_nobody_asks(tmp_path: Path) -> None:
    complete = {"train": "none.csv", "text": "a", "target": "number"}
    assert make_recipe({"tasks": {"own": complete}}, folder=tmp_path, check_files=False).tasks["own"].kind == "single"
    with pytest.raises(RecipeError, match=r"tasks.own.text: missing"):
        make_recipe({"tasks": {"own": {"train": "none.csv"}}}, folder=tmp_path, check_files=False)


def test_nothing_is_read_where_nothing_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr(Columns, "of", refuse)
    monkeypatch.setattr(LabelValues, "of", refuse)
    (tmp_path / "own.csv").write_text("a,b\nx,1\n")
    own = {"train": "own.csv", "text": "a", "label": "b", "target": "number"}
    make_recipe({"data": "samples", "tasks": list(CATALOG)[:3]})
    recipe = make_recipe({"tasks": {"own": own}}, folder=tmp_path)
    make_recipe({"tasks": {"own": {**own, "train": "hf:a/b:train", "dev": "hf:a/b:dev"}}}, folder=tmp_path)
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe))
    assert load_recipe(tmp_path / "recipe.toml") == recipe


def test_a_written_recipe_has_what_was_inferred(infer: Infer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    infer(REVIEWS)
    recipe = make_recipe({"tasks": {"own": {"train": "rows.jsonl"}}}, folder=tmp_path)
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe))
    monkeypatch.setattr(Columns, "of", lambda *_: pytest.fail("the written recipe leaves nothing open"))
    assert load_recipe(tmp_path / "recipe.toml") == recipe


def write_csv(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "lines",
    [
        ["the film is awful number 0,neg", "the film is great number 1,pos", "the film is great number 2,neg"],
        ["It was a joy.,1", "I left after an hour.,0", "It was fine for an evening.,1"],
    ],
)
def test_a_file_without_a_header_is_refused_with_the_line_to_write(lines: list[str], tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"rows\.csv: the first line is not a header\. .*header = false.*--set tasks\.rows"
    ):
        load_recipe(write_csv(tmp_path / "rows.csv", *lines, *lines))
    recipe = load_recipe(tmp_path / "rows.csv", overrides=["tasks.rows.header=false"])
    assert (recipe.tasks["rows"].text, recipe.tasks["rows"].label) == (("1",), "2")


def test_a_column_that_divides_the_rows_is_pointed_out(infer: Infer, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{**row, "part": ("train", "test")[number % 2]} for number, row in enumerate(REVIEWS)]
    infer(rows, label="stars")
    assert "the column 'part' says test, train, and is not used. Set split = \"part\"" in caplog.text


def test_lists_of_a_0_or_1_for_each_class_are_refused(infer: Infer) -> None:
    with pytest.raises(RecipeError, match="hold a 0 or 1 for each class"):
        infer(labelled([1, 0], [0, 1], [1, 0]))


def test_a_class_may_be_called_drop(infer: Infer) -> None:
    assert infer(labelled("drop", "keep", "drop", "keep")).classes == ("drop", "keep")


def test_numbers_that_may_be_names_keep_their_form(infer: Infer) -> None:
    assert infer(labelled("01", "1", "1.0", "01")).classes == ("01", "1")
    assert infer(labelled("1.1x", "1.10", "1.1", "1.10"), target="classes").classes == ("1.1", "1.10", "1.1x")
