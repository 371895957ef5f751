"""Files that `palbert.serve` is given."""

from __future__ import annotations

from pathlib import Path

import pytest

import palbert
from palbert.serving import server
from palbert.serving.settings import Settings


def test_files_may_be_given_as_texts_or_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Settings] = []
    monkeypatch.setattr(server, "run_server", given.append)
    palbert.serve("runs/mine", keys="keys.json", audit_log="audit.sqlite")
    palbert.serve(Path("runs/mine"), keys=Path("keys.json"), audit_log=Path("audit.sqlite"))
    assert given[0] == given[1]
    assert (given[0].keys, given[0].audit_log) == (Path("keys.json"), Path("audit.sqlite"))
