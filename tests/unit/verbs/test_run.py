"""Run: a path that knows its report, its scores, its recipe and its model."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest

import palbert
from palbert.errors import RunFolderError
from palbert.verbs.predict import Predictions


@pytest.fixture
def run(trained: Path) -> palbert.Run:
    return palbert.Run(trained)


def test_a_run_stands_for_its_path(run: palbert.Run, trained: Path) -> None:
    assert os.fspath(run) == str(run) == f"{run}" == str(trained)
    assert Path(run) == trained == run and run == trained and run == palbert.Run(str(trained))
    assert run != trained / "other" and run != 3
    assert run / "report.json" == trained / "report.json"
    assert hash(run) == hash(palbert.Run(trained))
    assert copy.copy(run) == run == pickle.loads(pickle.dumps(run))


def test_code_that_takes_a_run_for_a_path_continues_to_work(run: palbert.Run, trained: Path) -> None:
    assert run.name == trained.name and run.exists() and run.parent == trained.parent  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Run' object has no attribute 'scors'"):
        run.scors  # type: ignore[attr-defined]  # noqa: B018


def test_report_scores_and_recipe_are_those_of_the_folder(run: palbert.Run, trained: Path) -> None:
    report = json.loads((trained / "report.json").read_text("utf-8"))
    assert run.report == report
    assert run.scores == report["tasks"]
    assert run.recipe == palbert.load_recipe(trained / "recipe.toml")


@pytest.mark.usefixtures("on_cpu")
def test_a_run_predicts_as_its_loaded_model_does(run: palbert.Run) -> None:
    texts = ["A fine day.", "The soup was cold."]
    assert "predictor" not in vars(run)
    found = run.predict("sst", texts)
    assert found == palbert.load(run).predict("sst", texts) == run.load(checkpoint="best").predict("sst", texts)
    assert run.predictor is run.predictor
    assert isinstance(found, Predictions) and "The soup was cold." in found._repr_html_()


def test_a_run_is_shown_with_scores_intervals_baselines_and_report(run: palbert.Run, trained: Path) -> None:
    shown = repr(run).splitlines()
    assert shown[0] == f"Run {trained}" and shown[-1] == f"Report: {trained / 'report.html'}"
    assert shown[1].split()[:2] == ["task", "metric"] and "95 % interval" in shown[1]
    page = run._repr_html_()
    assert "majority / mean" in page and "sst" in page and "report.html" in page


def test_names_in_a_run_are_escaped(run_copy: Path) -> None:
    odd = palbert.Run(shutil.move(run_copy, run_copy.parent / "<b>"))
    report = json.loads((odd / "report.json").read_text("utf-8"))
    report["notes"] = ["<script>alert(1)</script>"]
    (odd / "report.json").write_text(json.dumps(report))
    assert "<script>" not in odd._repr_html_() and "<b>" not in odd._repr_html_()


def test_a_folder_without_a_report_says_so(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('[encoder]\nname = "a"\n[provenance.versions]\npalbert = "1"\n')
    run = palbert.Run(tmp_path)
    assert repr(run) == f"Run {tmp_path}, without a report"
    assert "none" in run._repr_html_()
    with pytest.raises(RunFolderError, match=r"report\.json: no such file.*Make it with: palbert\.evaluate"):
        _ = run.scores


def test_results_of_other_verbs_are_shown_as_tables(run: palbert.Run, run_copy: Path) -> None:
    compared = palbert.compare([run, run_copy])
    assert repr(compared).splitlines()[0].split()[:2] == ["task", "metric"]
    assert str(run_copy) in compared._repr_html_()
    report = palbert.evaluate(run_copy)
    assert repr(report).splitlines()[-1] == f"Report: {run_copy / 'report.html'}"
    assert "<table>" in report._repr_html_()


def test_a_prediction_is_shown_with_rounded_probabilities() -> None:
    found = palbert.Prediction("kind", {"rude": 0.123456, "kind": 0.876544})
    assert repr(found) == "Prediction(answer='kind', probabilities={'rude': 0.123, 'kind': 0.877})"
    assert repr(palbert.Prediction(2.5)) == "Prediction(answer=2.5)"
    assert "<td" in found._repr_html_()


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="there is no run here"):
        palbert.Run(tmp_path / "nothing")


@pytest.mark.usefixtures("on_cpu")
def test_a_run_abstains_as_its_model_does(run: palbert.Run) -> None:
    [answer] = run.predict("sst", ["a film"], min_confidence=1.0)
    assert answer.abstained and answer.answer is None
