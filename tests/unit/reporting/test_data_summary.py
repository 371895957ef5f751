"""The page of a data check."""

from __future__ import annotations

import re
import sys
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from palbert.registry import TARGETS
from palbert.reporting.data_summary import SplitSummary, render_data_report

GENERATOR = np.random.default_rng(0)


def summary(
    task: str = "sst", split: str = "train", *, rows: int = 50, target: str = "classes", **changes: Any
) -> SplitSummary:
    labels = GENERATOR.integers(3, size=rows) if target != "number" else GENERATOR.uniform(0, 5, rows)
    values: dict[str, Any] = {
        "name": task,
        "split": split,
        "files": (f"data/{task}-{split}.csv",),
        "rows": rows,
        "labels": labels,
        "target": TARGETS[target](classes=("bad", "so-so", "good") if target != "number" else ()),
        "lengths": GENERATOR.integers(3, 90, size=rows),
        "max_length": 64,
        "truncated": 3,
        "duplicates": 0,
        "empty": 0,
        "leaked": 0,
        "examples": [],
        "dropped": 0,
    }
    return SplitSummary(**{**values, **changes})


def test_clean_data_is_called_clean() -> None:
    page = render_data_report("Data", [summary(), summary(split="dev")])
    assert "Nothing suspicious in 2 splits" in page
    assert page.count("Nothing to report.") == 2


def test_findings_are_counted_and_shown() -> None:
    found = summary(split="dev", leaked=2, duplicates=1, empty=4, examples=["Also in train: A gorgeous film."])
    page = render_data_report("Data", [summary(), found])
    assert "1 of 2 splits has rows worth a look" in page
    sentence = "4 rows without a text or a label; 1 row that repeat an earlier row; 2 rows also in the train split."
    assert sentence in page
    assert "Also in train: A gorgeous film." in page


def test_every_split_has_its_plots_as_xml_with_unique_ids() -> None:
    splits = [summary(), summary(split="dev"), summary("sts", target="number"), summary("sts", "dev", target="number")]
    page = render_data_report("Data", splits)
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.S)
    assert len(drawings) == 2 + 4
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_texts_are_escaped_and_nothing_is_loaded() -> None:
    page = render_data_report("<b>", [summary("<i>", examples=["<script>x</script>"], files=("<u>.csv",))])
    assert not re.search(r"<script>x|<b>|<i>|<u>|https?://", page)


def test_a_split_without_labels_or_rows_renders() -> None:
    empty = summary(split="test", rows=0, labels=np.array([]), lengths=np.array([], dtype=np.int64), truncated=0)
    page = render_data_report("Data", [summary(), empty])
    assert "0 rows" in page
    assert "There is no data to show" in render_data_report("Data", [])


def test_without_matplotlib_the_page_says_how_to_get_the_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = render_data_report("Data", [summary()])
    assert "<svg" not in page
    assert "Plots need matplotlib" in page


def test_the_truncated_share_counts_inputs_of_the_encoder() -> None:
    assert summary(rows=50, lengths=np.full(100, 80), truncated=25).truncated_share == 0.25


def test_advice_is_shown_once_above_the_tasks() -> None:
    page = render_data_report("Data", [summary(advice=("mine: few rows.",)), summary(split="dev")])
    assert page.count("mine: few rows.") == 1 and "Advice" in page
    assert "Advice" not in render_data_report("Data", [summary()])
