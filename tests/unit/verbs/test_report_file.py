"""The summary of a report: read as it was written, refused with the place where it is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import RunFolderError
from palbert.verbs.report_file import read_report

REPORT = {"metrics": {"sst": "accuracy"}, "tasks": {"sst": {"accuracy": 0.5}}}


def test_the_report_of_a_run_is_read_as_it_is(trained: Path) -> None:
    file = trained / "report.json"
    assert read_report(file, hint="") == json.loads(file.read_text("utf-8"))


def test_a_damaged_report_stops_the_card(run_copy: Path) -> None:
    file = run_copy / "report.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "rows": [3]}))
    with pytest.raises(RunFolderError, match=r"damaged: rows: .* palbert evaluate"):
        palbert.card(run_copy)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"notes": 3}, "damaged: notes: "),
        ({"rows": {"sst": {"dev": -1}}}, "damaged: rows.sst.dev: "),
        ({"seconds": float("nan")}, "damaged: seconds: "),
        ({"overall": "x"}, "damaged: overall: "),
        ({"parameters": {"encoder": 10**400}}, "damaged: parameters.encoder"),
        ({"baselines": {"majority": {"sst": []}}}, "damaged: baselines.majority.sst: "),
        ({"intervals": {"sst": {"low": "x"}}}, "damaged: intervals.sst.low: "),
        ({"split": "../../dev"}, "damaged: split: "),
        ({"tasks": {}}, "damaged: tasks.sst has no accuracy"),
        ({"test": {"metrics": {"sst": "accuracy"}, "tasks": {}}}, "damaged: tasks.sst has no accuracy"),
    ],
)
def test_a_damaged_report_is_refused_with_the_place(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**REPORT, **changes}))
    with pytest.raises(RunFolderError) as caught:
        read_report(file, hint="Make it again.")
    assert says in caught.value.message and str(file) in caught.value.message
    assert caught.value.hint == "Make it again."
