"""The files of the course are read unchanged: set PALBERT_DATA to their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palbert.data.dataset import load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.tasks.catalog import CATALOG, COURSE_FILES
from palbert.tasks.sets import files_of
from palbert.tasks.spec import Task

FOLDER = os.environ.get("PALBERT_DATA")
ROWS = {
    ("sst", "train"): 8544,
    ("sst", "dev"): 1101,
    ("sst", "test"): 2210,
    ("sts", "train"): 6040,
    ("sts", "dev"): 863,
    ("sts", "test"): 1725,
    ("quora", "dev"): 20212,
}
CUT_SHORT = {("quora", "dev"): 2}  # rows of the file that end before their label

pytestmark = pytest.mark.skipif(not FOLDER, reason="PALBERT_DATA does not name the folder with the course's files")


def course_task(name: str) -> Task:
    files = {split: f"{FOLDER}/{file}" for split, file in COURSE_FILES[name].items()}
    return Task.model_validate({"name": name, **CATALOG[name], **files})


@pytest.mark.parametrize(("task", "split"), ROWS)
def test_every_row_of_a_course_file_is_read(tmp_path: Path, tokenizer: TextTokenizer, task: str, split: str) -> None:
    found = load_dataset(files_of(course_task(task), split), tokenizer, cache=tmp_path)  # type: ignore[arg-type]
    dropped = CUT_SHORT.get((task, split), 0)
    assert (len(found), found.dropped, found.unmapped) == (ROWS[task, split], dropped, 0)
    assert len(set(found.ids)) == len(found)
    assert (found.labels is None) == (split == "test")


def test_every_class_of_the_sentiment_treebank_occurs(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    labels = load_dataset(files_of(course_task("sst"), "train"), tokenizer, cache=tmp_path).labels
    assert labels is not None
    assert sorted(set(labels.tolist())) == [0, 1, 2, 3, 4]
