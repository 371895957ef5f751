"""Submission files: the exact format of the course, and plain CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.reproduction.course import PREDICTION_FILES
from palbert.reproduction.submission_files import TaskAnswers, write_submission
from palbert.runtime.run_files import foreign_files
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.catalog import CATALOG
from palbert.tasks.spec import Task


def answers(name: str, *values: str | float, split: str = "test") -> TaskAnswers:
    return TaskAnswers(Task(name=name, **CATALOG[name]), split, [f"id{n}" for n in range(len(values))], values)


@pytest.mark.parametrize(
    ("given", "file", "content"),
    [
        (answers("sst", "positive", "negative"), "sst-test-output.csv",
         "id \t Predicted_Sentiment \nid0 , 4 \nid1 , 0 \n"),
        (answers("quora", "duplicate", "different"), "para-test-output.csv",
         "id \t Predicted_Is_Paraphrase \nid0 , 1.0 \nid1 , 0.0 \n"),
        (answers("sts", 2.5, split="dev"), "sts-dev-output.csv", "id \t Predicted_Similiary \nid0 , 2.500000 \n"),
        (answers("cfimdb", "positive"), "full-model-cfimdb-test-out.csv", "id \t Predicted_Sentiment \nid0 , 1 \n"),
    ],
    ids=["sst", "quora", "sts", "cfimdb"],
)  # fmt: skip
def test_the_course_files_equal_those_of_the_course_code(given: TaskAnswers, file: str, content: str) -> None:
    assert given.files()[file] == content


def test_plain_files_name_classes_and_keep_any_id() -> None:
    task = Task(name="own", kind="single", target="binary", text=("words",))
    given = TaskAnswers(task, "dev", ['a "b", c', "2"], ["yes", "no"])
    assert list(given.files()) == ["predictions/own-dev.csv"]  # the course has no such task
    rows = list(csv.reader(io.StringIO(given.files()["predictions/own-dev.csv"])))
    assert rows == [["id", "prediction"], ['a "b", c', "yes"], ["2", "no"]]


def test_plain_files_are_escaped_on_request_and_those_of_the_course_never() -> None:
    given = TaskAnswers(Task(name="sst", **CATALOG["sst"]), "test", ["=1", "-2"], ["positive", "negative"])
    safe = given.files(spreadsheet_safe=True)
    assert safe["predictions/sst.csv"] == "id,prediction\n'=1,positive\n-2,negative\n"
    assert safe["sst-test-output.csv"] == given.files()["sst-test-output.csv"]


def test_all_files_are_written_and_returned_by_task(tmp_path: Path) -> None:
    written = write_submission(tmp_path, [answers("sst", "neutral"), answers("sts", 1.0)])
    assert {task: [str(path.relative_to(tmp_path)) for path in paths] for task, paths in written.items()} == {
        "sst": ["predictions/sst.csv", "sst-test-output.csv"],
        "sts": ["predictions/sts.csv", "sts-test-output.csv"],
    }
    assert all(path.is_file() for paths in written.values() for path in paths)


def test_a_file_that_exists_by_then_is_replaced_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "sst-test-output.csv").write_text("mine")
    with pytest.raises(RunFolderError, match=r"sst-test-output\.csv: already exists"):
        write_submission(tmp_path, [answers("sst", "neutral")], replace=False)
    assert (tmp_path / "sst-test-output.csv").read_text() == "mine"
    write_submission(tmp_path, [answers("sst", "neutral")])
    assert (tmp_path / "sst-test-output.csv").read_text() != "mine"


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("name", PREDICTION_FILES)
def test_the_files_of_a_submission_are_known_as_the_run_s_own(tmp_path: Path, name: str, split: str) -> None:
    run = RunFolder(tmp_path)
    write_submission(run.submission, [TaskAnswers(Task(name=name, **CATALOG[name]), split, [], [])])
    assert list(foreign_files(tmp_path, [run.submission])) == []


def test_answers_of_several_classes_are_joined_and_have_no_course_form() -> None:
    task = Task.model_validate(
        {"name": "sst", "kind": "single", "target": "multilabel", "classes": ["a", "b"], "text": "x"}
    )
    [(name, content)] = TaskAnswers(task, "test", ["1", "2"], [["a", "b"], []]).files().items()
    assert (name, content.splitlines()) == ("predictions/sst.csv", ["id,prediction", "1,a|b", "2,"])
