"""Label values: counted over all files as the task sees them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers import PLAIN
from palbert.recipe.label_values import LabelValues, classes_of, target_of
from palbert.tasks.sources import Source


def test_labels_of_all_files_are_counted_with_their_own_columns_and_mappings(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nx,1.0\ny,2\nz,\n")
    (tmp_path / "b.csv").write_text("text,grade\nx,low\ny,high\nz,none\n")
    mapping = {"low": 1, "high": 3, "none": "drop"}
    files = [Source(path=str(tmp_path / "a.csv"))]
    files += [Source(path=str(tmp_path / "b.csv"), label="grade", labels=mapping)]
    assert LabelValues.of(files, general=PLAIN, label="label").counts == {"1": 2, "2": 1, "3": 1}
    with pytest.raises(DataError, match="no column 'none'"):
        LabelValues.of(files, general=PLAIN, label="none")


def test_numbers_are_ordered_by_value_and_others_by_name() -> None:
    assert classes_of(LabelValues(Counter({"10": 1, "9": 1, "-1": 1}))) == ["-1", "9", "10"]
    assert classes_of(LabelValues(Counter({"b": 1, "A": 1, "10": 1, "9": 1}))) == ["10", "9", "A", "b"]


def test_whole_numbers_are_classes_and_fractions_are_numbers() -> None:
    assert target_of(LabelValues(Counter({"1": 5, "2": 5}))) == "classes"
    assert target_of(LabelValues(Counter({"1": 5, "2.5": 5}))) == "number"
    assert target_of(LabelValues(Counter({"1": 5, "2,5": 5}))) == "number"
    assert target_of(LabelValues(Counter({"a": 5}), lists=True)) == "multilabel"


def test_indices_fit_the_classes_that_they_number() -> None:
    assert LabelValues(Counter({"0": 1, "yes": 1})).fit(("no", "yes"))
    assert not LabelValues(Counter({"2": 1})).fit(("no", "yes"))
