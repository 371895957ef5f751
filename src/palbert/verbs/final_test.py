"""Test rows: scored with the report of a run, where they have labels; no choice is made by them."""

from __future__ import annotations

import logging

from palbert.build import has_rows, load_split
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import PalbertError
from palbert.readers import read_chunks
from palbert.recipe.schema import Recipe
from palbert.tasks.sets import DataFiles, files_of

log = logging.getLogger(__name__)


def labelled_test_rows(recipe: Recipe, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Return the test rows of every task that has labelled ones.

    Files without a label column are not read. What is wrong with test rows is a warning: the training is done, and
    `palbert evaluate --split test` scores them later.
    """
    found: dict[str, Dataset] = {}
    for name, task in recipe.tasks.items():
        try:
            if has_rows(task, "test") and _has_label_column(files_of(task, "test")):
                alone = recipe.model_copy(update={"tasks": {name: task}})
                found |= load_split(alone, "test", tokenizer)
        except PalbertError as error:
            remedy = "palbert evaluate RUN --split test scores them later"
            log.warning("%s test: the rows are not scored, %s. %s", name, remedy, error)
    return {name: dataset for name, dataset in found.items() if dataset.labels is not None}


def _has_label_column(files: DataFiles) -> bool:
    """Whether the first rows of the files have labels to read."""
    return all(
        (source.label or files.label)
        in next(iter(read_chunks(source.path, dialect=source.dialect_over(files.dialect)))).columns
        for source in files.sources
    )
