"""The course: its files and columns are those of the catalog."""

from __future__ import annotations

from pathlib import Path

from palbert.reproduction.course import PREDICTION_FILES, course_file, course_text_columns
from palbert.tasks.catalog import CATALOG, COURSE_FILES


def test_every_prediction_file_belongs_to_a_task_with_course_files() -> None:
    assert PREDICTION_FILES.keys() <= COURSE_FILES.keys() & CATALOG.keys()
    names = {file.name.format(split=split) for file in PREDICTION_FILES.values() for split in ("dev", "test")}
    assert len(names) == 2 * len(PREDICTION_FILES)


def test_numbers_are_written_as_numbers_and_classes_as_indices() -> None:
    for task, file in PREDICTION_FILES.items():
        assert f"{1:{file.number}}".startswith("1")
        if CATALOG[task]["target"] == "number":
            assert float(f"{0.123456:{file.number}}") == 0.123456


def test_files_and_columns_of_unknown_tasks_are_none() -> None:
    assert course_file("data", "sst", "test") == Path("data/ids-sst-test-student.csv")
    assert course_file("data", "own", "test") is None
    assert course_text_columns("sst") == ("sentence",)
    assert course_text_columns("quora") == ("sentence1", "sentence2")
    assert course_text_columns("own") == ()
