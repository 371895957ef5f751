"""A run folder is recognised by what only palbert writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.runtime.ownership import is_marked, is_resolved_recipe, mark


def test_a_marker_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "marker").write_text(mark())
    assert is_marked(tmp_path / "marker")
    assert mark() != mark()


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{}", b"\xff", b'{"palbert_run": 1}', b"[encoder]", b'{"kind": "train"}'),
        *(b"[" * 100_000, b"a = " + b"[" * 100_000),
    ],
)
def test_other_files_are_not_taken_for_those_of_a_run(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert not any(check(tmp_path / "file") for check in (is_marked, is_resolved_recipe))
    assert not any(check(tmp_path / "absent") for check in (is_marked, is_resolved_recipe))
