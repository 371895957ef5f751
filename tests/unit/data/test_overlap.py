"""Overlap: which training rows are also in dev or test, and that training leaves them out."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palbert
from palbert.build import count_overlap, load_corpus, load_training_sets
from palbert.data.dataset import Dataset
from palbert.data.overlap import RowIndex, count_found, find_overlap
from palbert.data.ragged import PART, Ragged, Texts
from palbert.data.row_keys import normal
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, RecipeError
from palbert.recipe.load import load_recipe, make_recipe
from palbert.recipe.sections import PretrainingSection

Write = Callable[..., Path]

TRAIN = [
    ("A man sings.", "A dog runs.", "1"),  # in dev, in reverse order and in capitals
    ("A man sings.", "A cat sleeps.", "0"),  # one text of dev
    ("It rains.", "It is  wet.", "1"),  # in test, except for spaces
    ("New here.", "New there.", "0"),
    ("New here too.", "New there too.", "1"),
]
DEV = [("a DOG runs.", "a MAN sings.", "0"), ("Only in dev.", "And this.", "1")]
TEST = [("It  rains.", " It is wet. "), ("Only in test.", "And that.")]


def written(path: Path, header: str, rows: list[Any]) -> str:
    lines = ["\t".join([str(number), *row]) for number, row in enumerate(rows)]
    path.write_text("\n".join([header, *lines]) + "\n", "utf-8")
    return str(path)


@pytest.fixture
def values(tmp_path: Path, tiny_encoder: Path) -> dict[str, Any]:
    header = "id\tsentence1\tsentence2"
    quora = {
        "train": written(tmp_path / "train.tsv", f"{header}\tis_duplicate", TRAIN),
        "dev": written(tmp_path / "dev.tsv", f"{header}\tis_duplicate", DEV),
        "test": written(tmp_path / "test.tsv", header, TEST),
    }
    return {
        "encoder": {"name": str(tiny_encoder)},
        "tasks": {"quora": quora},
        "training": {"epochs": 1, "steps_per_epoch": 2, "batch_size": 2},
        "run": {"device": "cpu", "tensorboard": False},
    }


def kept(values: dict[str, Any], tokenizer: TextTokenizer, *kinds: str) -> list[str]:
    values["tasks"]["quora"]["drop_overlap"] = list(kinds)
    return list(load_training_sets(make_recipe(values), tokenizer)["quora"].rows.ids)


@pytest.mark.parametrize(
    ("kinds", "ids"),
    [
        ([], "01234"),
        (["dev"], "1234"),
        (["test"], "0134"),
        (["dev", "test"], "134"),
        (["dev-texts"], "234"),
        (["dev-texts", "test-texts"], "34"),
    ],
)
def test_rows_of_dev_and_test_are_left_out_when_asked(
    values: dict[str, Any], tokenizer: TextTokenizer, kinds: list[str], ids: str
) -> None:
    assert kept(values, tokenizer, *kinds) == list(ids)


def test_the_fields_of_a_kept_row_stay_together(values: dict[str, Any], tokenizer: TextTokenizer) -> None:
    whole = load_training_sets(make_recipe(values), tokenizer)["quora"].rows
    values["tasks"]["quora"]["drop_overlap"] = "dev"
    part = load_training_sets(make_recipe(values), tokenizer)["quora"].rows
    assert part.overlapping == 1 and len(part) == 4 and part.labels is not None and whole.labels is not None
    for row in range(4):
        assert [column[row] for column in part.texts] == [column[row + 1] for column in whole.texts]
        assert [list(column[row]) for column in part.tokens] == [list(column[row + 1]) for column in whole.tokens]
        assert part.labels[row] == whole.labels[row + 1]
    assert values["tasks"]["quora"]["dev"] in part.files  # the removed rows depend on it


def test_overlapping_rows_are_counted_per_setting(values: dict[str, Any], tokenizer: TextTokenizer) -> None:
    recipe = make_recipe(values)
    dataset = load_training_sets(recipe, tokenizer)["quora"].rows
    assert count_overlap(recipe.tasks["quora"], dataset, tokenizer) == {
        "dev": 1,
        "test": 1,
        "dev-texts": 2,
        "test-texts": 1,
    }


def test_test_labels_are_never_read(values: dict[str, Any], tokenizer: TextTokenizer, tmp_path: Path) -> None:
    rows = [(*row, "secret") for row in TEST]
    values["tasks"]["quora"]["test"] = written(tmp_path / "t.tsv", "id\tsentence1\tsentence2\tis_duplicate", rows)
    assert kept(values, tokenizer, "test") == list("0134")


def test_extra_sets_and_triplets_are_compared_with_the_dev_rows_of_their_task(
    values: dict[str, Any], tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    nli = [("a man sings.", "A dog runs.", "entailment"), ("A tree.", "A plant.", "entailment")]
    nli += [("A man sings.", "Nobody sings.", "contradiction"), ("A tree.", "A stone.", "contradiction")]
    file = written(tmp_path / "nli.tsv", "id\tpremise\thypothesis\tlabel", nli)
    triples = [("A man sings.", "One sings.", "a dog runs."), ("A sea.", "Water.", "Land.")]
    values["tasks"]["quora"] |= {
        "drop_overlap": ["dev"],
        "extra": {
            "snli": {"train": file},
            "made": {"train": written(tmp_path / "triples.tsv", "id\ta\tb\tc", triples), "form": "triplets",
                     "text": ["a", "b", "c"]},
        },
    }  # fmt: skip
    found = load_training_sets(make_recipe(values), tokenizer)
    assert list(found["quora+snli"].rows.ids) == ["1", "2", "3"]
    assert list(found["quora+made"].rows.ids) == ["1"]


def test_further_pretraining_leaves_overlapping_rows_out_too(values: dict[str, Any], tokenizer: TextTokenizer) -> None:
    section = PretrainingSection(held_out=0.2)
    sizes = []
    for kinds in ([], ["dev-texts"]):
        values["tasks"]["quora"]["drop_overlap"] = kinds
        train, held_out, _ = load_corpus(make_recipe(values), section, tokenizer)
        sizes.append(len(train) + len(held_out))
    assert sizes == [9, 6]  # "A man sings." appears twice


def test_a_set_that_would_be_empty_is_refused(values: dict[str, Any], tokenizer: TextTokenizer) -> None:
    values["tasks"]["quora"] |= {"train": values["tasks"]["quora"]["dev"]}
    with pytest.raises(DataError, match="all 2 training rows of quora are in dev"):
        kept(values, tokenizer, "dev")


def test_a_test_split_without_files_is_refused(values: dict[str, Any]) -> None:
    values["tasks"]["quora"] |= {"test": [], "drop_overlap": ["dev", "test-texts"]}
    with pytest.raises(RecipeError, match=r'tasks\.quora\.drop_overlap: names "test-texts", but the task has no test'):
        make_recipe(values)


@pytest.mark.usefixtures("no_plots", "on_cpu")
def test_a_run_reports_overlapping_and_removed_rows(
    values: dict[str, Any], write_recipe: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "palbert")
    palbert.train(write_recipe(values), out=tmp_path / "left-in")
    assert 'quora train: 1 of its rows is also in dev; tasks.quora.drop_overlap = ["dev"]' in caplog.text
    caplog.clear()
    values["tasks"]["quora"]["drop_overlap"] = ["dev", "test"]
    run = palbert.train(write_recipe(values), out=tmp_path / "left-out")
    assert "quora train: 3 rows, 2 left out because they are in dev or test" in caplog.text
    assert "also in dev;" not in caplog.text
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert "quora train: 2 rows were left out because they are also in dev or test." in report["notes"]
    assert report["rows"]["quora"]["train"] == 3
    assert load_recipe(run / "recipe.toml").tasks["quora"].drop_overlap == ("dev", "test")
    assert palbert.load(run).predict("quora", [("One.", "Two.")])  # a checkpoint has no files to compare with


def test_hundreds_of_thousands_of_pairs_take_seconds() -> None:
    rows = 400_000
    generator = np.random.default_rng(0)
    numbers = generator.integers(0, rows, (2, rows))
    columns = tuple(Texts.from_rows([f"How do I learn number {n} by heart?" for n in side]) for side in numbers)
    none = Ragged.from_rows([])
    dataset = Dataset("quora", "train", columns[0], columns, (none, none), None, 0, 0, {})
    start = time.process_time()
    known = RowIndex((columns[1][row], columns[0][row].upper()) for row in range(40_000))
    found = find_overlap(dataset, [(known, False), (known, True)])
    assert time.process_time() - start < 15  # about 2 s; machines differ
    assert found[0][:40_000].all() and not found[0].all()
    assert (found[1] | ~found[0]).all()


def test_normalized_texts_ignore_case_and_spaces() -> None:
    assert normal("  Straße \t A\u00a0b\n") == normal("STRASSE a B") == "strasse a b"


def test_rows_are_found_among_others_whatever_their_case_and_order() -> None:
    rows = [Texts.from_rows(["A b", "c", "A B"]), Texts.from_rows(["x", "y", "x"])]
    others = [Texts.from_rows(["X", "z"]), Texts.from_rows(["a  b", "z"])]
    assert count_found(rows, [others]) == 2  # both of two equal rows
    assert count_found(rows, []) == 0


def test_long_sets_are_compared_part_by_part() -> None:
    texts = [Texts.from_rows([f"row {number}" for number in range(2 * PART + 3)])]
    index = RowIndex([["Row 1"], [f"row {PART}"], [f"ROW {2 * PART + 2}"]])
    rows = Dataset("own", "train", texts[0], tuple(texts), (), None, 0, 0, {})
    [mask] = find_overlap(rows, [(index, False)])
    assert np.flatnonzero(mask).tolist() == [1, PART, 2 * PART + 2]
