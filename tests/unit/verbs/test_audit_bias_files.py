"""Files of an audit of bias: the section in a report is replaced, and damage is no obstacle."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.reporting.bias import BEGIN, END
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.audit_bias_files import place_of, read_bias, show_in_report

SUMMARY = {
    "tasks": [{"name": "a<b", "overall": "none", "groups": 3, "significant": 0, "largest": []}],
    "rows_from": "templates",
    "checkpoint": "best",
    "limits": ["These only."],
    "is_stale": False,
}


def test_the_section_is_put_between_the_marks_and_nowhere_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    report = folder.report("html")
    show_in_report(folder, SUMMARY)
    assert not report.exists()
    report.write_text("<p>of an earlier version</p>", "utf-8")
    show_in_report(folder, SUMMARY)
    assert report.read_text("utf-8") == "<p>of an earlier version</p>"
    report.write_text(f"<p>before</p>{BEGIN}old{END}<p>after</p>", "utf-8")
    show_in_report(folder, SUMMARY)
    text = report.read_text("utf-8")
    assert text.startswith("<p>before</p>") and text.endswith("<p>after</p>")
    assert "old" not in text.split("<section")[0] and "a&lt;b" in text and "These only." in text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tasks": {}, "checkpoint": "best"}', "{"])
def test_a_damaged_audit_is_not_shown(content: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.bias.mkdir(parents=True)
    (folder.bias / "bias.json").write_text(content, "utf-8")
    assert read_bias(folder) is None


def test_a_file_or_a_link_is_no_place(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunFolderError, match="expected a folder, found a file"):
        place_of(folder, tmp_path / "file", force=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bias.json").symlink_to(tmp_path / "file")
    with pytest.raises(RunFolderError, match=r"bias\.json: no audit has written this"):
        place_of(folder, tmp_path / "out", force=True)
    assert place_of(folder, None, force=False) == folder.bias
