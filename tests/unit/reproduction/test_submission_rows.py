"""Submission rows: where the files of a task are, and rows that can be predicted one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.errors import DataError
from palbert.reproduction.submission_rows import find_files, read_rows
from palbert.tasks.catalog import CATALOG
from palbert.tasks.sources import Source
from palbert.tasks.spec import Task

SST = Task(name="sst", **CATALOG["sst"])
STS = Task(name="sts", **CATALOG["sts"])


def own_task(**settings: Any) -> Task:
    return Task(**{"name": "own", "kind": "single", "target": "binary", "text": ("words",), "id": "row", **settings})


def write(path: Path, text: str) -> tuple[Source, ...]:
    path.write_text(text, "utf-8")
    return (Source(path=str(path)),)


def test_a_file_given_by_hand_comes_before_the_folder_and_the_folder_before_the_recipe(tmp_path: Path) -> None:
    for name in ("mine.csv", "ids-sst-test-student.csv", "theirs.csv"):
        (tmp_path / name).touch()
    recipe = {"sst": SST.model_copy(update={"test": (Source(path=str(tmp_path / "theirs.csv")),)})}

    def found(**given: Any) -> str:
        settings = {"folder": None, "files": {}, **given}
        return Path(find_files(["sst"], recipe_tasks=recipe, split="test", **settings)["sst"][0].path).name

    assert found() == "theirs.csv"
    assert found(folder=tmp_path) == "ids-sst-test-student.csv"
    assert found(folder=tmp_path, files={"sst": tmp_path / "mine.csv"}) == "mine.csv"


def test_files_of_other_tasks_are_found_by_their_own_names_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").touch()
    task = own_task(test=({"path": "/elsewhere/mine.csv", "text": ("columns",)},))
    found = find_files(["own"], recipe_tasks={"own": task}, split="test", folder=tmp_path, files={})
    assert found["own"] == (Source(path=str(tmp_path / "mine.csv"), text=("columns",)),)


def test_all_missing_files_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        find_files(["sst", "own"], recipe_tasks={}, split="test", folder=tmp_path, files={})
    assert caught.value.message.splitlines() == [
        f"sst: no such file: {tmp_path / 'ids-sst-test-student.csv'}",
        "own: no test file is known: the run's recipe names none.",
    ]
    with pytest.raises(DataError, match="no such folder"):
        find_files(["sst"], recipe_tasks={}, split="test", folder=tmp_path / "nowhere", files={})


def test_ids_and_texts_are_read_from_the_tasks_columns_or_the_courses(tmp_path: Path) -> None:
    own = read_rows(own_task(), write(tmp_path / "own.csv", "row,words\n 7 , A film. \n8,\n"))
    assert own.ids == ["7", "8"] and own.texts == [("A film.",), ("",)]
    trained_elsewhere = STS.model_copy(update={"text": ("a", "b"), "id": "idx"})
    course = read_rows(trained_elsewhere, write(tmp_path / "sts.csv", "id\tsentence1\tsentence2\nx\tA\tB\n"))
    assert course.ids == ["x"] and course.texts == [("A", "B")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,text\n1,A film.\n", "no column 'sentence'"),
        ("id,sentence\n1,A film.\n,Another.\n", "line 3: the id 1 occurred before"),
        ("id,sentence\n1,A film.\n2,Another.\n1,A third.\n", r"line 4: the id 1 occurred before, in .*, line 2"),
        ("id,sentence\n", "no rows for sst"),
    ],
)
def test_a_file_that_cannot_be_predicted_row_by_row_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_rows(SST, write(tmp_path / "t.csv", text))


def test_an_id_must_be_unique_over_all_files(tmp_path: Path) -> None:
    sources = write(tmp_path / "a.csv", "id,sentence\n1,A\n") + write(tmp_path / "b.csv", "id,sentence\n1,B\n")
    with pytest.raises(DataError, match=r"b\.csv, line 2: the id 1 occurred before, in .*a\.csv, line 2"):
        read_rows(SST, sources)


def test_an_empty_text_is_kept_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = read_rows(SST, write(tmp_path / "t.csv", 'id,sentence\n1,A film.\n2,""\n'))
    assert rows.ids == ["1", "2"] and "sst: 1 of 2 rows have an empty text" in caplog.text


def test_rows_without_an_id_are_numbered_over_all_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = write(tmp_path / "a.csv", "sentence\nA\nB\n") + write(tmp_path / "b.csv", "id,sentence\n,C\nx,D\n")
    assert read_rows(SST, files).ids == ["0", "1", "2", "x"]
    assert "sst: 3 of 4 rows have no id; they are numbered from 0." in caplog.text
