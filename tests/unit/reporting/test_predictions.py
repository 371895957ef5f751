"""Prediction files: what is written is read back, for every target."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from palbert.errors import DataError
from palbert.inference.results import TaskResult
from palbert.registry import TARGETS
from palbert.reporting.predictions import probability_column, read_predictions, write_predictions
from palbert.targets import Target

CLASSES = ('quoted "a"', "b, c")
ROWS = 6


def result(target: Target, *, pair: bool = False) -> TaskResult:
    generator = torch.Generator().manual_seed(0)
    gold, decoded = (target.decode(torch.randn(ROWS, target.outputs, generator=generator)) for _ in range(2))
    text: tuple[str, ...] = ("one\nline", "two")[: 1 + pair]
    return TaskResult(
        task="mine",
        split="dev",
        target=target,
        metric=target.metrics[0],
        scores={},
        ids=[f"{row}" for row in range(ROWS)],
        texts=[text] * ROWS,
        gold=target.gold(gold.predicted),
        predicted=decoded.predicted,
        probabilities=decoded.probabilities,
    )


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("pair", [False, True])
def test_written_predictions_read_back_unchanged(name: str, pair: bool, tmp_path: Path) -> None:
    target: Target = TARGETS[name](classes=() if name == "number" else CLASSES)
    written = result(target, pair=pair)
    path = write_predictions(tmp_path, written)
    assert path.name == "mine-dev.csv"
    read = read_predictions(path, target=target)
    assert read.ids == written.ids
    np.testing.assert_allclose(read.gold, written.gold, rtol=1e-5)
    np.testing.assert_allclose(read.predicted, written.predicted, rtol=1e-5)
    assert read.gold.dtype == written.gold.dtype
    if written.probabilities is None:
        assert read.probabilities is None
    else:
        assert read.probabilities is not None
        np.testing.assert_allclose(read.probabilities, written.probabilities, atol=1e-6)


def test_escaped_predictions_read_back_unchanged(tmp_path: Path) -> None:
    target = TARGETS["binary"](classes=("-", "'=no"))
    written = replace(result(target), ids=["=1", "-2", "'=3", "4", "+a", ""], texts=[("@x",)] * ROWS)
    path = write_predictions(tmp_path, written, spreadsheet_safe=True)
    header, first, second, *_ = csv.reader(path.read_text("utf-8").splitlines())
    assert header[-1] == "spreadsheet_safe" and first[0] == "'=1" and second[0] == "-2" and first[-2] == "'@x"
    read, plain = read_predictions(path, target=target), write_predictions(tmp_path / "plain", written)
    expected = read_predictions(plain, target=target)
    assert (read.ids, read.texts) == (written.ids, written.texts) == (expected.ids, expected.texts)
    np.testing.assert_array_equal(read.gold, expected.gold)
    np.testing.assert_array_equal(read.predicted, expected.predicted)


def test_the_columns_are_those_that_others_rely_on(tmp_path: Path) -> None:
    path = write_predictions(tmp_path, result(TARGETS["binary"](classes=("no", "yes")), pair=True))
    assert path.read_text("utf-8").splitlines()[0] == "id,gold,prediction,p(no),p(yes),text1,text2"
    path = write_predictions(tmp_path, result(TARGETS["number"]()))
    assert path.read_text("utf-8").splitlines()[0] == "id,gold,prediction,text"
    assert probability_column("yes") == "p(yes)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id,gold,prediction\n1,yes,maybe\n",
            "row 1: .* target: there is no class 'maybe'",
        ),
        ("id,gold,prediction\n1,yes,no\n2,yes\n", "row 2: not a prediction of this task's target"),
        ("name,gold,prediction\n1,yes,no\n", "row 1: not a prediction of this task's target: 'id'"),
        ("id,prediction\n1,yes\n", "row 1: not a prediction of this task's target: 'gold'"),
    ],
)
def test_a_file_of_something_else_is_refused_with_its_row(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text, "utf-8")
    target: Any = TARGETS["binary"](classes=("no", "yes"))
    with pytest.raises(DataError, match=message):
        read_predictions(path, target=target)


@pytest.mark.parametrize("name", TARGETS)
def test_a_row_with_missing_fields_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    gold = "2.5" if name == "number" else "b"
    path.write_text(f"id,gold,prediction\n1,{gold}\n", "utf-8")
    with pytest.raises(DataError, match=r"row 1: .*fields are missing"):
        read_predictions(path, target=TARGETS[name](classes=() if name == "number" else ("a", "b")))


def test_texts_longer_than_the_default_limit_of_csv_are_read(tmp_path: Path) -> None:
    written = replace(result(TARGETS["number"]()), texts=[("long " * 50_000,)] * ROWS)
    path = write_predictions(tmp_path, written)
    former = csv.field_size_limit(131_072)  # as in a fresh process
    try:
        assert read_predictions(path, target=written.target).ids == written.ids
    finally:
        csv.field_size_limit(former)
