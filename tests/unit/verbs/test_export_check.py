"""The check of an export: what it does without the libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from palbert.verbs.export_check import TEXTS, vectors_of


@pytest.mark.parametrize("form", ["transformers", "sentence-transformers"])
def test_a_library_that_is_not_installed_gives_no_vectors(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("transformers", "transformers.utils", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    assert vectors_of(form, tmp_path, pooling="mean", max_length=16) is None


def test_the_texts_have_several_lengths_and_one_is_empty() -> None:
    lengths = [len(text.split()) for text in TEXTS]
    assert min(lengths) == 0 and max(lengths) > 512 and len(set(lengths)) == len(lengths)
