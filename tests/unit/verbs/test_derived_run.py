"""Derived runs: where they may be written, and what they are made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.derived_run import Source, refuse_overlap


def test_a_source_is_a_run_with_a_checkpoint(trained: Path, tmp_path: Path) -> None:
    source = Source.of(trained, "last")
    assert source.checkpoint == trained / "checkpoints" / "last" and list(source.recipe.tasks) == [
        "sst",
        "quora",
        "sts",
    ]
    with pytest.raises(RunFolderError, match="there is no run here"):
        Source.of(tmp_path)


def test_a_run_is_not_written_over_into_or_around_its_sources(trained: Path, tmp_path: Path) -> None:
    for place in (trained, trained / "inside", trained.parent):
        with pytest.raises(RunFolderError, match="would be made from"):
            refuse_overlap(RunFolder(place), [RunFolder(trained)])
    refuse_overlap(RunFolder(tmp_path / "elsewhere"), [RunFolder(trained)])
