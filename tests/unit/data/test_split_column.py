"""Split column: each row goes where its cell says, and unknown cells are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.build import has_rows, load_split, load_training_sets
from palbert.data.split_column import marked_splits, rows_of_split
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.readers import Chunk
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.tasks.sets import Marked, files_of
from palbert.tasks.sources import SPLIT_NAMES, Split

ROWS = [("a b", "1", "train"), ("c d", "2", "Validation"), ("e f", "3", " TEST "), ("g h", "4", "train")]


def recipe(folder: Path, rows: list[tuple[str, str, str]] = ROWS, **settings: str) -> Recipe:
    lines = ["text\tlabel\tpart", *map("\t".join, rows)]
    (folder / "own.tsv").write_text("\n".join(lines) + "\n")
    own = {"kind": "single", "target": "number", "text": "text", "split": "part", "train": "own.tsv", **settings}
    return make_recipe({"tasks": {"own": own}}, folder=folder)


def test_every_row_is_in_the_split_that_its_cell_names(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    own = recipe(tmp_path)
    texts = {split: list(load_split(own, split, tokenizer)["own"].texts[0]) for split in ("train", "dev", "test")}
    assert texts == {"train": ["a b", "g h"], "dev": ["c d"], "test": ["e f"]}


@pytest.mark.parametrize(("cell", "split"), SPLIT_NAMES.items())
def test_the_usual_names_are_known_in_any_case(cell: str, split: Split) -> None:
    chunk = Chunk("a.csv", {"part": [cell.upper(), "", cell][::2], "text": ["x", "y"]}, [2, 4])
    assert len(rows_of_split(chunk, Marked("part", (split,)))) == 2
    others: tuple[Split, ...] = tuple(other for other in ("train", "dev", "test") if other != split)  # type: ignore[misc]
    assert len(rows_of_split(chunk, Marked("part", others))) == 0


def test_rows_keep_their_lines() -> None:
    chunk = Chunk("a.csv", {"part": ["dev", "train", "dev"], "text": ["x", "y", "z"]}, [2, 4, 9])
    kept = rows_of_split(chunk, Marked("part", ("dev",)))
    assert kept.columns["text"] == ["x", "z"] and kept.lines == [2, 9]


def test_unknown_values_are_an_error_that_names_them(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    rows = [*ROWS, ("i j", "1", "holdout"), ("k l", "1", "trial"), ("m n", "1", "holdout")]
    with pytest.raises(
        DataError, match=r'own.tsv, line 6: expected train, dev or test in .part., found "holdout", "tr'
    ):
        load_training_sets(recipe(tmp_path, rows), tokenizer)


def test_a_column_need_not_mark_test_rows_but_dev_rows(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    own = recipe(tmp_path, [ROWS[0], ROWS[3]])
    assert marked_splits(files_of(own.tasks["own"], "train")) == {"train"} and not has_rows(own.tasks["own"], "test")
    with pytest.raises(DataError, match="no rows for own dev marked as dev in the column 'part'") as caught:
        load_split(own, "dev", tokenizer)
    assert 'tasks.own.dev = "10%"' in str(caught.value)


def test_test_rows_may_lack_labels_but_all_or_none(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    bare = [*ROWS[:2], ("e f", "", "test"), ROWS[3]]
    assert load_split(recipe(tmp_path, bare), "test", tokenizer)["own"].labels is None
    with pytest.raises(DataError, match="some rows have a label in 'label' and some do not"):
        load_split(recipe(tmp_path, [*bare, ("o p", "3", "test")]), "test", tokenizer)
    with pytest.raises(DataError, match="the column 'label' is empty"):
        load_training_sets(recipe(tmp_path, [*ROWS, ("o p", "", "train")]), tokenizer)


def test_dev_rows_may_be_held_out_from_the_rows_marked_as_train(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    rows = [(f"text {number}", str(number), "test" if number % 4 == 0 else "train") for number in range(40)]
    own = recipe(tmp_path, rows, dev="20%")
    sizes = [len(load_split(own, split, tokenizer)["own"]) for split in ("train", "dev", "test")]
    assert sizes == [24, 6, 10]
