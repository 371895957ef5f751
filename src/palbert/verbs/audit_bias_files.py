"""Files of an audit of bias: its folder, and the section that it gets in the run's report."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from palbert.errors import PalbertError, RunFolderError
from palbert.reporting.bias import BEGIN, END, bias_section, bias_summary
from palbert.runtime.checksums import RECORD, read_record, record_folder
from palbert.runtime.csv_lines import CSVWriter
from palbert.runtime.files import new_folder, sha256, write_text
from palbert.runtime.json_objects import parse_json
from palbert.runtime.run_files import LEFT_BY_SYSTEMS
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.spreadsheet import safe_cell

log = logging.getLogger(__name__)

FILES = ("bias.json", "swaps.csv", "bias.html")
COLUMNS = (
    "task", "from", "base", "axis", "group", "other_group", "text1", "text2", "other_text1", "other_text2",
    "answer", "other_answer", "flipped", "largest_change",
)  # fmt: skip


def place_of(folder: RunFolder, out: str | PathLike[str] | None, *, force: bool) -> Path:
    """Return where an audit is written; refuse to replace what no audit has written.

    Args:
        folder: The run, whose own audit is replaced as its report is.
        out: Another folder.
        force: Whether an earlier audit there may be replaced.
    """
    place = folder.bias if out is None else Path(out)
    if place.exists() and not place.is_dir():
        raise RunFolderError(f"{place}: expected a folder, found a file.", hint="Give another folder with --out.")
    there = sorted(place.iterdir()) if place.is_dir() else []
    record = read_record(place) or {} if there else {}
    for path in there:
        is_own = path.name in {*record, RECORD} and path.name in (*FILES, RECORD) and not path.is_symlink()
        if not is_own and path.name not in LEFT_BY_SYSTEMS:
            raise RunFolderError(
                f"{path}: no audit has written this, and it would be removed.",
                hint="Give another folder with --out, or move the file away.",
            )
    if there and out is not None and not force:
        raise RunFolderError(f"{place}: holds an audit.", hint="Add --force to replace it, or give another --out.")
    return place


def write_audit(
    place: Path, content: str, page: str, lines: Sequence[Mapping[str, Any]], *, spreadsheet_safe: bool
) -> None:
    """Write the files of an audit; they appear together."""
    buffer = io.StringIO()
    writer = CSVWriter(buffer)
    writer.writerow(COLUMNS)
    for line in lines:
        cells = [line[name] for name in COLUMNS]
        writer.writerow(map(safe_cell, cells) if spreadsheet_safe else cells)
    with new_folder(place) as temporary:
        for name, text in zip(FILES, (content, buffer.getvalue(), page), strict=True):
            (temporary / name).write_text(text, encoding="utf-8", newline="")
        record_folder(temporary)


def show_in_report(folder: RunFolder, summary: Mapping[str, Any]) -> None:
    """Put the summary of an audit into the run's report, in the place that the report has for it."""
    path = folder.report("html")
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        return  # a run without a report; the next one will have the section
    section = f"{BEGIN}{bias_section(summary)}{END}"
    changed, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: section, text, count=1, flags=re.DOTALL
    )
    if count:
        write_text(path, changed)
    else:
        log.info("%s is of an earlier palbert; palbert evaluate RUN writes one that shows the audit.", path)


def read_bias(folder: RunFolder) -> dict[str, Any] | None:
    """Return the summary of the run's own audit for its report; None where there is none that can be read."""
    try:
        content = parse_json((folder.bias / FILES[0]).read_text("utf-8"))
        weights = folder.checkpoint(content["checkpoint"]) / "model.safetensors"
        return bias_summary(content, is_stale=sha256(weights) != content["weights"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PalbertError):
        return None
