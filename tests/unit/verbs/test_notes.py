"""Notes of a report: all findings, the most serious first, in the report and in the log."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from palbert.terminal import NOTES
from palbert.verbs import notes
from palbert.verbs.findings import data, scores, training

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")


def test_a_run_on_the_sample_data_says_that_it_is_a_demonstration(run_copy: Path) -> None:
    found = json.loads((run_copy / "report.json").read_text("utf-8"))["notes"]
    assert "a demonstration, not a benchmark" in found[0]
    assert all(note.endswith(".") and "\n" not in note for note in found)


def test_every_finding_is_looked_for_once() -> None:
    defined = {
        function
        for module in (data, scores, training)
        for name, function in vars(module).items()
        if callable(function) and getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
    }
    assert set(notes.FINDINGS) == defined and len(notes.FINDINGS) == len(defined)


def test_only_the_most_serious_notes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="palbert"):
        notes.log_notes([f"Note {number}." for number in range(7)])
    assert caplog.messages == [*(f"Note {number}." for number in range(5)), "The report has 2 more notes."]
    assert {record.name for record in caplog.records} == {NOTES}
