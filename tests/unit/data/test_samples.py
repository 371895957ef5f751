"""The sample rows: enough of them, no duplicates or near duplicates across splits, free to use."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

import palbert.data
from palbert.readers import read_chunks
from palbert.tasks.catalog import CATALOG, SAMPLES

FOLDER = Path(palbert.data.__file__).parent / "samples"
NEAR = 0.6


def rows(task: str, split: str) -> list[tuple[str, ...]]:
    """Return the texts and the label of each row."""
    (chunk,) = read_chunks(str(FOLDER / f"{task}-{split}.tsv"))
    text = CATALOG[task]["text"]
    names = [text] if isinstance(text, str) else list(text)
    return list(zip(*(chunk.column(name) for name in [*names, CATALOG[task]["label"]]), strict=True))


def words(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset("".join(c if c.isalnum() else " " for c in " ".join(texts).casefold()).split())


def normal(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(" ".join(text.casefold().split()) for text in texts))


@pytest.mark.parametrize("task", SAMPLES)
@pytest.mark.parametrize(("split", "least"), [("train", 300), ("dev", 120)])
def test_there_are_enough_rows(task: str, split: str, least: int) -> None:
    assert len(rows(task, split)) >= least


@pytest.mark.parametrize("task", SAMPLES)
@pytest.mark.parametrize("split", ["train", "dev"])
def test_no_row_appears_twice(task: str, split: str) -> None:
    twice = [row for row, count in Counter(normal(row[:-1]) for row in rows(task, split)).items() if count > 1]
    assert twice == []


@pytest.mark.parametrize("task", SAMPLES)
def test_no_dev_row_is_similar_to_a_train_row(task: str) -> None:
    train = [(row, words(row[:-1])) for row in rows(task, "train")]
    near = [
        (row, other)
        for row in rows(task, "dev")
        for other, seen in train
        if len(found := words(row[:-1])) and len(found & seen) / len(found | seen) >= NEAR
    ]
    assert near == []


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize(("task", "classes"), [("sst", 5), ("quora", 2)])
def test_every_class_occurs_often(task: str, classes: int, split: str) -> None:
    found = Counter(row[-1] for row in rows(task, split))
    assert set(found) == {str(label) for label in range(classes)}
    assert min(found.values()) >= 0.5 * sum(found.values()) / classes


@pytest.mark.parametrize("split", ["train", "dev"])
def test_similarity_ranges_from_0_to_5_in_halves(split: str) -> None:
    assert {float(row[-1]) for row in rows("sts", split)} == {half / 2 for half in range(11)}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.tsv")), ids=lambda path: path.stem)
def test_ids_are_unique_and_fields_need_no_quoting(path: Path) -> None:
    (chunk,) = read_chunks(str(path))
    ids = chunk.column("id")
    assert len(set(ids)) == len(ids)
    with path.open(encoding="utf-8", newline="") as stream:  # the same with quotes and without
        assert len(list(csv.reader(stream, delimiter="\t"))) == len(ids) + 1


def test_the_rows_are_in_the_public_domain() -> None:
    assert "CC0 1.0" in (FOLDER / "LICENSE").read_text("utf-8")
