"""Held-out rows: the right number, a share of every class, and equal texts on one side."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palbert.build import count_overlap, load_split, load_training_sets
from palbert.data import dataset as dataset_module
from palbert.data.dataset import Dataset
from palbert.data.held_out_split import FEW, MOST, _connected, held_out_rows
from palbert.data.ragged import Texts
from palbert.data.row_keys import numbered
from palbert.data.token_cache import build
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.recipe.load import make_recipe
from palbert.tasks.sets import files_of
from palbert.tasks.spec import Task

GENERATOR = np.random.default_rng(0)


def hold_out(columns: list[list[str]], labels: Any, dev: Any = "auto", **settings: Any) -> np.ndarray:
    """Return which rows are held out."""
    own = {"name": "own", "target": "classes", "classes": [str(label) for label in range(int(max(labels)) + 1)]}
    own |= {"kind": "pair" if len(columns) > 1 else "single", "text": [f"text{n}" for n in range(len(columns))]}
    task = Task.model_validate({**own, "train": "own.csv", "dev": dev, **settings})
    texts = tuple(map(Texts.from_rows, columns))
    rows = Dataset("own", "train", texts[0], texts, (), np.array(labels), 0, 0, {"own.csv": ""})
    return held_out_rows(rows, files_of(task, "train"))


def texts(count: int) -> list[str]:
    return [f"Text {number}" for number in range(count)]


@pytest.mark.parametrize(("dev", "expected"), [("10%", 100), (0.25, 250), (37, 37), ("auto", 100), ({"rows": 9}, 9)])
def test_as_many_rows_are_held_out_as_asked_for(dev: Any, expected: int) -> None:
    assert hold_out([texts(1000)], GENERATOR.integers(0, 3, 1000), dev).sum() == expected


def test_every_class_has_its_share() -> None:
    labels = np.repeat([0, 1, 2], [700, 250, 50])
    assert np.bincount(labels[hold_out([texts(1000)], labels, "10%")]).tolist() == [70, 25, 5]


def test_rare_classes_have_a_few_rows_on_both_sides() -> None:
    labels = np.repeat([0, 1, 2, 3], [300, 30, 8, 2])
    held = hold_out([texts(340)], labels)
    assert np.bincount(labels[held]).tolist() == [30, FEW, 2, 1]
    assert np.bincount(labels[hold_out([texts(340)], labels, 30)]).sum() == 30  # a number asked for is kept
    assert set(labels[~held]) == {0, 1, 2, 3}


def test_large_sets_hold_out_a_limited_number_and_small_ones_more_than_a_tenth() -> None:
    assert hold_out([texts(80_000)], np.arange(80_000) % 2).sum() == MOST
    assert hold_out([texts(24)], np.arange(24) % 2).sum() == 6


def test_numbers_are_held_out_over_their_whole_range(tmp_path: Path) -> None:
    labels = np.sort(GENERATOR.normal(size=500))
    held = hold_out([texts(500)], labels, "20%", target="number", classes=[])
    assert np.bincount(np.flatnonzero(held) // 50).tolist() == [10] * 10


def test_rows_with_equal_texts_are_on_one_side() -> None:
    numbers = GENERATOR.integers(0, 300, 900)
    column = [
        ["Some TEXT {}", "some  text {}", " some text {} "][row % 3].format(number)
        for row, number in enumerate(numbers)
    ]
    held = hold_out([column], numbers % 2, "20%")
    assert held.sum() == pytest.approx(180, abs=12)
    assert not set(numbers[held]) & set(numbers[~held])


@pytest.mark.parametrize("dev", ["20%", "fold 1 of 4"])
def test_pairs_that_share_a_text_are_on_one_side(dev: str) -> None:
    first = GENERATOR.integers(0, 1000, 600)
    second = first // 5 * 5 + GENERATOR.integers(0, 5, 600)  # texts are connected within fives
    held = hold_out([[f"t{n}" for n in first], [f"T{n}" for n in second]], first % 2, dev)
    assert not {*first[held], *second[held]} & {*first[~held], *second[~held]}
    assert held.mean() == pytest.approx(0.2 if dev == "20%" else 0.25, abs=0.05)


def test_connected_pairs_fall_back_to_equal_pairs_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    chain = [f"t{number % 100}" for number in range(201)]
    with caplog.at_level(logging.INFO):
        held = hold_out([chain[:-1], chain[1:]], np.arange(200) % 2)
    assert held.sum() == pytest.approx(20, abs=4) and "only equal pairs are kept on one side" in caplog.text
    assert held[:100].tolist() == held[100:].tolist()


@pytest.mark.parametrize("dev", ["10%", "auto", "fold 1 of 2", 5])
def test_rows_that_are_all_equal_cannot_be_divided(dev: str) -> None:
    with pytest.raises(DataError, match="too few different texts among 10 rows"):
        hold_out([["same"] * 10], np.arange(10) % 2, dev)


def test_as_many_rows_as_there_are_cannot_be_held_out() -> None:
    with pytest.raises(DataError, match="too few different texts"):
        hold_out([texts(10)], np.arange(10) % 2, 10)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_small_sets_leave_rows_on_both_sides(count: int) -> None:
    held = hold_out([texts(count)], np.arange(count) % 2)
    assert 0 < held.sum() < count


def test_each_row_is_in_one_fold() -> None:
    labels = np.repeat([0, 1], [77, 26])
    folds = [hold_out([texts(103)], labels, f"fold {fold} of 5") for fold in range(1, 6)]
    assert np.sum(folds, axis=0).tolist() == [1] * 103
    assert all(fold.sum() in (20, 21) and labels[fold].sum() in (5, 6) for fold in folds)


def test_the_seed_of_the_split_is_its_own() -> None:
    labels = np.arange(200) % 2
    plain, same = hold_out([texts(200)], labels, "10%"), hold_out([texts(200)], labels, {"share": 0.1, "seed": 0})
    other = hold_out([texts(200)], labels, {"share": 0.1, "seed": 1})
    assert np.array_equal(plain, same) and not np.array_equal(other, same)


@pytest.fixture
def values(tmp_path: Path, tiny_encoder: Path) -> dict[str, Any]:
    """Return a recipe whose task has no dev file, and an extra set with some of its rows."""
    lines = [f"the film number {number}\t{number % 5}" for number in range(60)]
    (tmp_path / "own.tsv").write_text("\n".join(["sentence\tsentiment", *lines]))
    (tmp_path / "extra.tsv").write_text("\n".join(["sentence\tsentiment", *lines[::2]]))
    own = {"train": str(tmp_path / "own.tsv"), "extra": {"more": {"train": str(tmp_path / "extra.tsv")}}}
    return {"encoder": str(tiny_encoder), "tasks": {"sst": own}}


def test_train_and_dev_are_all_rows_and_share_the_token_cache(
    values: dict[str, Any], tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PALBERT_CACHE", str(tmp_path / "cache"))
    read = []
    monkeypatch.setattr(dataset_module, "build", lambda *a, own=build: read.append(a) or own(*a))
    recipe = make_recipe(values)
    train, dev = load_training_sets(recipe, tokenizer)["sst"].rows, load_split(recipe, "dev", tokenizer)["sst"]
    assert sorted([*map(int, train.ids), *map(int, dev.ids)]) == list(range(60)) and len(dev) == 15
    assert (train.split, dev.split) == ("train", "dev")
    assert len(read) == 2  # the task's file once, and its extra set
    assert [list(each.texts[0]) for each in (train, dev)] == [
        [f"the film number {row}" for row in each.ids] for each in (train, dev)
    ]


def test_the_recipes_seed_does_not_move_the_split(values: dict[str, Any], tokenizer: TextTokenizer) -> None:
    ids = [list(load_split(make_recipe({**values, "seed": seed}), "dev", tokenizer)["sst"].ids) for seed in (0, 1)]
    assert ids[0] == ids[1]


def test_extra_sets_are_compared_with_the_rows_held_out(values: dict[str, Any], tokenizer: TextTokenizer) -> None:
    recipe = make_recipe(values)
    sets, dev = load_training_sets(recipe, tokenizer), load_split(recipe, "dev", tokenizer)["sst"]
    shared = sum(int(row) % 2 == 0 for row in dev.ids)
    assert shared and count_overlap(recipe.tasks["sst"], sets["sst+more"].rows, tokenizer) == {"dev": shared}
    assert count_overlap(recipe.tasks["sst"], sets["sst"].rows, tokenizer) == {"dev": 0}
    values["tasks"]["sst"]["drop_overlap"] = "dev"
    assert len(load_training_sets(make_recipe(values), tokenizer)["sst+more"]) == 30 - shared


def test_texts_of_one_row_are_connected_to_the_least_of_them() -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        columns = generator.integers(0, 60, (2 + seed % 2, 40))
        texts = numbered(columns.reshape(-1).astype(np.uint64)).reshape(columns.shape)
        component = {each: {each} for each in range(texts.max() + 1)}
        for row in texts.T.tolist():
            together = set().union(*(component[each] for each in row))
            component |= dict.fromkeys(together, together)
        assert _connected(texts).tolist() == [min(component[each]) for each in range(texts.max() + 1)]
