"""Chunks: a column that does not exist is refused with those that do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers import read_chunks

Write = Callable[[str, str | bytes], Path]


def test_a_missing_column_is_refused_with_the_nearest_name(file: Write) -> None:
    (chunk,) = read_chunks(str(file("a.csv", "id,sentence,\n1,x,2\n")))
    with pytest.raises(DataError, match=r"no column 'sentense'\. Known: id, sentence\. Did you mean 'sentence'\?"):
        chunk.column("sentense")
