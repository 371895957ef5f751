"""What the fuzzer takes for a right answer."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.soak import readers
from tests.soak.fuzz import VALUES, mutated_json
from tests.soak.material import columns


def write_answers(folder: Path, given: str, answered: str) -> None:
    (folder / "in.csv").write_text(given)
    (folder / "answers.jsonl.gz").write_bytes(gzip.compress(answered.encode()))


@pytest.mark.parametrize(
    ("given", "answered"),
    [("text,id\n", ""), ("text,id\ngood one,\n", '{"text": "good one", "id": null, "prediction": 1.0}\n')],
    ids=["no rows", "an empty cell"],
)
def test_answers_with_the_cells_of_the_input_are_right(tmp_path: Path, given: str, answered: str) -> None:
    write_answers(tmp_path, given, answered)
    with patch.object(readers, "predict"):
        readers.predict_all(tmp_path, None)


@pytest.mark.parametrize(
    "answered",
    [
        "",
        '{"id": "1", "prediction": 1.0}\n',
        '{"text": "bad one", "id": "1"}\n',
        '{"text": "good one", "id": "1"}\n' * 2,
    ],
    ids=["no rows", "no column", "another text", "a row too many"],
)
def test_answers_with_other_cells_are_a_finding(tmp_path: Path, answered: str) -> None:
    write_answers(tmp_path, "text,id\ngood one,1\n", answered)
    with patch.object(readers, "predict"), pytest.raises(AssertionError, match="differs"):
        readers.predict_all(tmp_path, None)


def write_text(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, "utf-8", newline="")
    return folder


@pytest.mark.parametrize("space", ["\x85", "\u2003", " \t"])
def test_spaces_of_unicode_around_an_object_are_no_finding(space: str, tmp_path: Path) -> None:
    readers.read_jsonl(
        write_text(tmp_path, "rows.jsonl", f'{space}{{"text": "a"}}{space}\n{{"text": "b"}}\n'), "rows.jsonl"
    )


def test_a_file_with_a_tab_in_its_header_has_fields_between_tabs(tmp_path: Path) -> None:
    readers.read_csv(write_text(tmp_path, "rows.csv", "text,label\t\na|b,yes\t\ngood one,no\t\n"), "rows.csv")


def test_other_cells_than_those_of_the_file_are_a_finding(tmp_path: Path) -> None:
    folder = write_text(tmp_path, "rows.csv", "text,label\ngood one,no\n")
    wrong = {"text": ["good one"], "label": ["yes"]}
    with patch.object(readers, "columns", return_value=wrong), pytest.raises(AssertionError, match="'yes' was read"):
        readers.read_csv(folder, "rows.csv")


def test_a_row_of_empty_fields_is_a_row_and_a_blank_line_is_none(tmp_path: Path) -> None:
    folder = write_text(tmp_path, "rows.csv", "text,label\n,\n\ngood one,no\n,")
    assert columns(folder / "rows.csv") == {"text": ["", "good one", ""], "label": ["", "no", ""]}
    readers.read_csv(folder, "rows.csv")


def test_of_columns_without_a_name_the_one_with_values_is_kept(tmp_path: Path) -> None:
    folder = write_text(tmp_path, "rows.csv", "text,,,label\na,b\nc,d\n")
    assert columns(folder / "rows.csv")[""] == ["b", "d"]
    readers.read_csv(folder, "rows.csv")


def test_bytes_of_parquet_are_no_finding(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"text": [b"good", None]}), tmp_path / "rows.parquet")
    readers.read_parquet(tmp_path, "rows.parquet")


def test_values_that_are_put_in_stay_as_they_are() -> None:
    before, chance = repr(VALUES), random.Random(1)
    for _ in range(2_000):
        mutated_json(b'{"a": [1, 2], "b": {"c": null}}', chance)
    assert repr(VALUES) == before
