"""Plots of the results page: those whose rows were run, as separate files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from palbert.reproduction.claims import Claims
from palbert.reproduction.results_plots import answer_plots, curve_plots, label_plot, plot_sections, score_plot

MakeResult = Callable[..., dict[str, Any]]

PLAIN, FROZEN = "mine/one:plain", "mine/one:frozen"
CLAIMS = Claims.model_validate(
    {
        "claims": {},
        "curves": {
            "both": {"text": "Two rows", "tasks": ["sst", "sts"], "rows": [PLAIN, FROZEN]},
            "none": {"text": "A row that was not run", "tasks": ["sst"], "rows": ["mine/two:same"]},
        },
        "scores": {"both": {"text": "Scores of two rows", "metrics": ["sst", "overall"], "rows": [PLAIN, FROZEN]}},
        "labels": {"sst": {"text": "Labels of sst", "row": PLAIN, "task": "sst"}},
        "answers": {"plain": {"text": "Predictions of a row", "row": PLAIN}},
    }
)


def test_the_plots_whose_rows_were_run_are_written_as_files(tmp_path: Path, make_result: MakeResult) -> None:
    pytest.importorskip("matplotlib")
    rows = {PLAIN: [make_result(), make_result(seed=1)], FROZEN: [make_result("frozen")]}
    text = "\n".join(plot_sections(CLAIMS, rows, tmp_path / "page.md", "tiny-bert, data Samples"))
    titles = re.findall(r"### (.*)", text)
    assert titles == ["Two rows", "Scores of two rows", "Labels of sst", "Predictions of a row"]
    named = re.findall(r"\]\((images/[^)]+\.svg)\)", text)
    assert len(named) == len(set(named)) == 2 + 1 + 1 + 2 + 2
    assert "images/page-tiny-bert-data-samples-both-loss-sst.svg" in named
    for name in named:
        content = (tmp_path / name).read_text("utf-8")
        assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in content


@pytest.mark.usefixtures("no_plots")
def test_there_are_no_plots_without_matplotlib(tmp_path: Path, make_result: MakeResult) -> None:
    assert plot_sections(CLAIMS, {PLAIN: [make_result()]}, tmp_path / "page.md", "tiny-bert") == []
    assert not (tmp_path / "images").exists()


def test_tasks_without_losses_scores_or_classes_are_not_drawn(make_result: MakeResult) -> None:
    pytest.importorskip("matplotlib")
    plain, alone = make_result(), make_result("alone", tasks={"sst": {"accuracy": 0.4}}, losses={"sst": [[1, 1.0]]})
    assert list(curve_plots([plain, alone], ["sst", "sts", "quora"])) == ["loss-sst", "loss-sts"]
    assert list(score_plot([[plain], [alone]], ["sst"])) == ["scores"]
    assert score_plot([[plain], [alone]], ["sst", "sts"]) == {}
    assert list(label_plot(plain, "sst")) == ["labels-sst"] and label_plot(plain, "sts") == {}
    assert label_plot(make_result(confusion={}), "sst") == {}  # a user-defined target, whose panels keep nothing
    assert list(answer_plots(plain)) == ["confusion-sst", "labels-sst", "numbers-sts", "residuals-sts"]
