"""Rows in memory: every kind of table gives the same file, and what is not rows is refused in Python's words."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from palbert.errors import DataError
from palbert.readers.memory import as_cell, iterate_rows, write_rows

ROWS: list[dict[str, Any]] = [
    {"text": "A fine day.", "label": 1, "score": 0.5, "topics": ["sun", "sky"]},
    {"text": 'Rain, "again"\nand again', "label": 0, "score": None, "topics": []},
    {"text": "Schnee — 雪", "label": 1, "score": 2.0, "topics": ["snow"]},
]


def columns() -> dict[str, list[Any]]:
    return {name: [row[name] for row in ROWS] for name in ROWS[0]}


class ArrowStream:
    """Rows that only the Arrow interface reads."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.Table.from_pylist(ROWS).__arrow_c_stream__(requested_schema)


class Indexed:
    """A data set with __getitem__ alone, as torch has them."""

    def __getitem__(self, number: int) -> dict[str, Any]:
        return ROWS[number]


def named_tuples() -> list[Any]:
    kind = collections.namedtuple("kind", list(ROWS[0]))  # type: ignore[misc]
    return [kind(**row) for row in ROWS]


KINDS: dict[str, Callable[[], Any]] = {
    "list of dicts": lambda: ROWS,
    "tuple of dicts": lambda: tuple(ROWS),
    "generator": lambda: (row for row in ROWS),
    "named tuples": named_tuples,
    "dict of columns": columns,
    "data set with __getitem__": Indexed,
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas, nullable types": lambda: pd.DataFrame(ROWS).convert_dtypes(),
    "pandas, another index": lambda: pd.DataFrame(ROWS, index=[7, 7, 9]),
    "polars": lambda: pl.DataFrame(ROWS),
    "pyarrow": lambda: pa.Table.from_pylist(ROWS),
    "pyarrow batch": lambda: pa.RecordBatch.from_pylist(ROWS),
    "pyarrow reader": lambda: pa.Table.from_pylist(ROWS).to_reader(),
    "arrow stream": ArrowStream,
    "datasets": lambda: datasets.Dataset.from_list(ROWS),
    "datasets, NumPy format": lambda: datasets.Dataset.from_list(ROWS).with_format("numpy"),
    "datasets, pandas format": lambda: datasets.Dataset.from_list(ROWS).with_format("pandas"),
    "datasets, streamed": lambda: datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_gives_the_same_file(kind: str, tmp_path: Path) -> None:
    assert write_rows(KINDS[kind](), tmp_path / "rows.jsonl", name='data["tone"]') == 3
    lines = (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == ROWS


def test_rows_of_a_database_have_the_names_of_their_columns() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    found = iterate_rows(connection.execute("select 'fine' as text, 1 as label"), name="rows")
    assert list(found) == [{"text": "fine", "label": 1}]
    connection.close()


def test_a_generator_is_read_one_row_at_a_time() -> None:
    read: list[int] = []

    def rows() -> Iterator[dict[str, int]]:
        for number in range(3):
            read.append(number)
            yield {"number": number}

    found = iterate_rows(rows(), name="rows")
    assert next(found) == {"number": 0}
    assert read == [0]


@pytest.mark.parametrize(
    "missing", [None, math.nan, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), decimal.Decimal("nan")]
)
def test_missing_values_are_empty_cells(missing: object) -> None:
    assert as_cell(missing) is None
    assert as_cell([missing, "a"]) == [None, "a"]


class Tone(enum.Enum):
    """A label as an enumeration."""

    GOOD = "good"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (np.int64(3), 3),
        (np.float64(0.25), 0.25),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array([1, 2]), [1, 2]),
        (np.array(["a"], dtype=object), ["a"]),
        (pd.Series(["a", None]), ["a", None]),
        (pl.Series(["a"]), ["a"]),
        (("a", "b"), ["a", "b"]),
        ({"b", "a"}, ["a", "b"]),
        (Tone.GOOD, "good"),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        (decimal.Decimal("1.50"), "1.50"),
        ({1: np.int8(2)}, {"1": 2}),
    ],
)
def test_values_are_written_as_plain_ones(value: object, cell: object) -> None:
    found = as_cell(value)
    assert found == cell
    assert type(found) is type(cell)
    json.dumps(found)


def test_a_category_is_written_by_its_name() -> None:
    frame = pd.DataFrame({"label": pd.Categorical(["good", "bad", None])})
    assert [as_cell(row["label"]) for row in iterate_rows(frame, name="rows")] == ["good", "bad", None]


def test_a_value_that_no_row_can_hold_is_named_by_its_type() -> None:
    assert as_cell(object()) == {"object": "object"}
    assert as_cell(b"bytes") == {"object": "bytes"}


WRONG: dict[str, tuple[Any, str]] = {
    "text": ("reviews.csv", "expected rows, found the text 'reviews.csv'"),
    "path": (Path("reviews.csv"), "expected rows, found pathlib.PosixPath"),
    "bytes": (b"a", "expected rows, found bytes"),
    "number": (3, "expected rows, found int 3"),
    "nothing": (None, "expected rows, found NoneType"),
    "Series": (pd.Series(["a"], name="text"), "expected a table, found pandas.Series, which is one column"),
    "polars Series": (pl.Series(["a"]), "expected a table, found polars.Series, which is one column"),
    "lazy frame": (pl.LazyFrame({"a": [1]}), r"found polars.LazyFrame.*Call \.collect\(\) first"),
    "one row": ({"text": "a", "label": 1}, "expected lists as columns, found the text 'a' in 'text'. A single row"),
    "unequal": ({"text": ["a", "b"], "label": [1]}, "columns of one length, found 2 in 'text', 1 in 'label'"),
    "tuples": ([("a", 1)], r"row 0 \(counting from 0\): expected a dict .* found tuple \('a', 1\)"),
    "texts": ([{"text": "a"}, "b"], r"row 1 \(counting from 0\): expected a dict .* found the text 'b'"),
    "array": (np.zeros((2, 2)), r"row 0 \(counting from 0\): expected a dict .* found numpy.ndarray"),
    "two columns": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are named 'a'"),
    "nested dicts": (pd.DataFrame({"text": ["a", "b"]}).to_dict(), r"found a dict in 'text'\. Pass the table itself"),
    "two arrow columns": (pa.table([["a"], ["b"]], names=["a", "a"]), "two columns are named 'a'"),
    "surrogate": ([{"text": "\ud800"}], r"row 0 \(counting from 0\): expected valid Unicode"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_not_rows_is_refused_by_its_type_and_place(kind: str, tmp_path: Path) -> None:
    rows, message = WRONG[kind]
    with pytest.raises(DataError, match=rf'data\["tone"\].*{message}'):
        write_rows(rows, tmp_path / "rows.jsonl", name='data["tone"]')
    assert not list(tmp_path.iterdir())


def test_keys_that_are_written_alike_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows, row 0 .*two columns are named '1'"):
        write_rows([{1: "a", "1": "b"}], tmp_path / "rows.jsonl", name="rows")


def test_a_number_of_thousands_of_digits_is_refused_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data, row 0 .*a value cannot be written"):
        write_rows([{"text": 10**5000}], tmp_path / "a.jsonl", name="data")
    with pytest.raises(DataError, match=r"found int a whole number of thousands of digits"):
        write_rows([10**5000], tmp_path / "a.jsonl", name="data")


@pytest.mark.parametrize("rows", [[{"a": 1, "a ": 2}], {"a": [1], "a ": [2]}, pd.DataFrame({"a": [1], "a ": [2]})])
def test_names_that_differ_by_spaces_are_one_name(rows: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two columns are named 'a'"):
        write_rows(rows, tmp_path / "a.jsonl", name="data")
