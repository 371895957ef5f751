"""Answer columns: a file without --task gets one column for each task that its texts fit."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import DataError
from palbert.verbs.answer_columns import AllTaskColumns, TaskColumns
from palbert.verbs.predict_file import predict_file

pytestmark = pytest.mark.usefixtures("on_cpu")

Cli = Callable[..., Any]
PAIRS = [("A man plays a guitar.", "Someone makes music."), ("It rains.", "The soup is cold."), ("", "a")]


@pytest.fixture(scope="module")
def model(on_cpu: None, trained: Path) -> palbert.Predictor:
    return palbert.load(trained)


def write_pairs(path: Path, first: str, second: str) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["key", first, second], *([str(row), *pair] for row, pair in enumerate(PAIRS))])
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_all_pair_tasks_answer_a_file_of_pairs(
    trained: Path, model: palbert.Predictor, tmp_path: Path, cli: Cli
) -> None:
    source = write_pairs(tmp_path / "in.csv", "sentence1", "sentence2")
    assert cli("predict", trained, "--input", source, "--output", tmp_path / "out.csv").code == 0
    rows = read(tmp_path / "out.csv")
    assert list(rows[0]) == ["key", "sentence1", "sentence2", "quora", "sts"]
    assert [row["quora"] for row in rows] == [str(answer.answer) for answer in model.predict("quora", PAIRS)]
    assert [float(row["sts"]) for row in rows] == pytest.approx(
        [answer.answer for answer in model.predict("sts", PAIRS)], abs=1e-6
    )


def test_columns_with_other_names_are_given_to_all_tasks_that_take_as_many(
    model: palbert.Predictor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = write_pairs(tmp_path / "in.csv", "left", "right")
    with caplog.at_level(logging.INFO, logger="palbert"):
        assert predict_file(model, None, source, tmp_path / "pairs.csv", columns=["left", "right"]) == len(PAIRS)
        assert predict_file(model, None, source, tmp_path / "single.csv", columns=["right"]) == len(PAIRS)
    assert list(read(tmp_path / "pairs.csv")[0]) == ["key", "left", "right", "quora", "sts"]
    assert list(read(tmp_path / "single.csv")[0]) == ["key", "left", "right", "sst"]
    assert "not asked, as their text columns are not there: quora, sts" in caplog.text


def test_a_file_that_fits_no_task_is_refused_with_the_missing_column(model: palbert.Predictor, tmp_path: Path) -> None:
    source = write_pairs(tmp_path / "in.csv", "left", "right")
    with pytest.raises(DataError, match="no column 'sentence'"):
        predict_file(model, None, source, tmp_path / "out.csv")
    with pytest.raises(DataError, match="No task takes 3 text columns"):
        predict_file(model, None, source, tmp_path / "out.csv", columns=["left", "right", "key"])


def test_a_column_with_the_name_of_a_task_is_refused(model: palbert.Predictor, tmp_path: Path) -> None:
    source = write_pairs(tmp_path / "in.csv", "sentence", "sst")
    with pytest.raises(DataError, match="its column 'sst' would clash"):
        predict_file(model, None, source, tmp_path / "out.csv")


def test_one_task_adds_probabilities_and_all_tasks_add_one_column_each(model: palbert.Predictor) -> None:
    one, every = TaskColumns(model, "sst", flat=True), AllTaskColumns(model, flat=True)
    assert one.text_columns(Path("f.csv"), ["sentence"], None) == ["sentence"]
    assert every.text_columns(Path("f.csv"), ["sentence"], None) == ["sentence"]
    given = {"sentence": ["a quiet triumph", "dull"]}
    assert list(one.answers(given)) == one.added() and len(one.added()) == 1 + len(model.tasks["sst"].classes)
    assert every.answers(given) == {"sst": one.answers(given)["prediction"]}
