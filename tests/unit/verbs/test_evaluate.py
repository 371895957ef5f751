"""palbert evaluate: other splits, other checkpoints, and files it must not change."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import palbert
from palbert.recipe.load import load_recipe

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
SAMPLES = Path(palbert.__file__).parent / "data" / "samples"


def test_json_on_stdout_is_the_report_and_nothing_else(run_copy: Path, cli: Cli) -> None:
    before = json.loads((run_copy / "report.json").read_text("utf-8"))
    result = cli("evaluate", run_copy, "--json")
    assert result.code == 0
    printed = json.loads(result.out)
    assert printed == json.loads((run_copy / "report.json").read_text("utf-8"))
    assert printed["tasks"] == before["tasks"] and printed["overall"] == before["overall"]


def test_the_train_split_gets_its_own_report_and_predictions(
    run_copy: Path, cli: Cli, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    before = snapshot(run_copy)
    result = cli("evaluate", run_copy, "--split", "train", "--json")
    assert result.code == 0
    after = snapshot(run_copy)
    made = {f"predictions/{task}-train.csv" for task in ("sst", "quora", "sts")} | {
        "report-train.json",
        "report-train.html",
    }
    assert after.keys() - before.keys() == made
    assert {name: after[name] for name in before} == before
    report = json.loads(result.out)
    assert report["split"] == "train" and report["rows"]["sst"]["train"] == 385
    with (run_copy / "predictions" / "sst-train.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 385
    right = sum(row["gold"] == row["prediction"] for row in rows) / len(rows)
    assert report["tasks"]["sst"]["accuracy"] == pytest.approx(right)
    assert report["tasks"]["sst"]["accuracy"] > json.loads(before["report.json"])["tasks"]["sst"]["accuracy"]


def test_another_checkpoint_gets_the_scores_of_its_own_epoch(run_copy: Path, cli: Cli) -> None:
    described = json.loads((run_copy / "checkpoints" / "best-sts" / "palbert.json").read_text("utf-8"))
    report = json.loads(cli("evaluate", run_copy, "--checkpoint", "best-sts", "--json").out)
    assert (report["checkpoint"], report["step"]) == ("best-sts", described["step"])
    assert report["overall"] == pytest.approx(described["scores"]["overall"], abs=1e-6)
    for task, scores in described["scores"]["tasks"].items():
        assert report["tasks"][task] == pytest.approx(scores, abs=1e-5)
    own = run_copy / "evaluations" / "best-sts"
    assert json.loads((own / "report.json").read_text("utf-8")) == report
    assert (own / "report.html").is_file() and (own / "predictions" / "sts-dev.csv").is_file()


def test_scoring_another_checkpoint_keeps_the_report_of_the_run(run_copy: Path, cli: Cli) -> None:
    files = [run_copy / "report.json", run_copy / "report.html", *sorted((run_copy / "predictions").iterdir())]
    before = [file.read_bytes() for file in files]
    result = cli("evaluate", run_copy, "--checkpoint", "last")
    assert [file.read_bytes() for file in files] == before
    assert f"Checkpoint: last\nReport: {run_copy / 'evaluations' / 'last' / 'report.html'}" in result.out


def test_the_table_shows_scores_next_to_baselines(run_copy: Path, cli: Cli) -> None:
    result = cli("evaluate", run_copy)
    report = json.loads((run_copy / "report.json").read_text("utf-8"))
    lines = result.out.splitlines()
    assert " ".join(lines[0].split()) == (
        "task metric majority / mean untrained heads linear probe cosine trained 95 % interval"
    )
    for line, (task, metric) in zip(
        lines[1:4], [("sst", "accuracy"), ("quora", "accuracy"), ("sts", "pearson")], strict=True
    ):
        fields = line.split()
        assert fields[:2] == [task, metric]
        expected = [*(scores.get(task) for scores in report["baselines"].values()), report["tasks"][task][metric]]
        assert fields[2 : 2 + len(expected)] == ["–" if score is None else f"{score:.3f}" for score in expected]
    assert f"Overall {report['overall']:.4f} = {report['formula']}" in result.out
    assert "a demonstration, not a benchmark" in result.out


def test_the_python_function_returns_what_it_writes(run_copy: Path) -> None:
    report = palbert.evaluate(run_copy)
    assert report.summary == json.loads((run_copy / "report.json").read_text("utf-8"))
    assert [result.task for result in report.results] == ["sst", "quora", "sts"]


def test_without_matplotlib_the_page_says_how_to_get_the_plots(run_copy: Path, trained: Path) -> None:
    palbert.evaluate(run_copy)
    page = (run_copy / "report.html").read_text("utf-8")
    assert "<svg" not in page and "pip install" in page and "palbert[plots]" in page
    assert "<svg" in (trained / "report.html").read_text("utf-8")


def test_a_split_without_files_is_refused(
    run_copy: Path, cli: Cli, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    before = snapshot(run_copy)
    result = cli("evaluate", run_copy, "--split", "test")
    assert (result.code, result.out) == (2, "")
    assert f"{run_copy}: its recipe names no test files." in result.err
    assert snapshot(run_copy) == before


def test_a_test_file_without_labels_is_refused_and_with_labels_is_scored(
    run_copy: Path, cli: Cli, tmp_path: Path
) -> None:
    lines = (SAMPLES / "sst-dev.tsv").read_text("utf-8").splitlines()
    blind, open_ = tmp_path / "blind.tsv", tmp_path / "open.tsv"
    blind.write_text("\n".join(line.rsplit("\t", 1)[0] for line in lines), "utf-8")
    shutil.copy(SAMPLES / "sst-dev.tsv", open_)
    recipe = tomllib.loads((run_copy / "recipe.toml").read_text("utf-8"))
    for file, code in ((blind, 2), (open_, 0)):
        recipe["tasks"]["sst"]["test"] = [{"path": str(file)}]
        (run_copy / "recipe.toml").write_text(tomli_w.dumps(recipe), "utf-8")
        result = cli("evaluate", run_copy, "--split", "test", "--json")
        assert result.code == code
    dev = json.loads((run_copy / "report.json").read_text("utf-8"))
    assert json.loads(result.out)["tasks"] == {"sst": dev["tasks"]["sst"]}


def test_data_changed_since_training_raises_a_warning(
    tmp_path: Path, tiny_recipe: dict[str, Any], cli: Cli, write_recipe: Callable[..., Path]
) -> None:
    for split in ("train", "dev"):
        shutil.copy(SAMPLES / f"sst-{split}.tsv", tmp_path)
    sst = {"train": str(tmp_path / "sst-train.tsv"), "dev": str(tmp_path / "sst-dev.tsv")}
    values = {**tiny_recipe, "tasks": {"sst": sst}}
    values["training"] = {**values["training"], "epochs": 1, "steps_per_epoch": 2}
    run = tmp_path / "run"
    assert cli("train", write_recipe(values), "--out", run).code == 0
    with (tmp_path / "sst-train.tsv").open("a", encoding="utf-8") as stream:
        stream.write("new\tA new row.\t2\n")
    result = cli("train", run / "recipe.toml", "--out", tmp_path / "again")
    assert result.code == 0
    assert f"{tmp_path / 'sst-train.tsv'} has changed since the recipe was run before." in result.err
    assert "sst-dev.tsv has changed" not in result.err
    hashes = load_recipe(run / "recipe.toml").provenance.data_sha256
    assert load_recipe(tmp_path / "again" / "recipe.toml").provenance.data_sha256 != hashes


def test_escaped_predictions_compare_with_plain_ones(run_copy: Path, trained: Path, cli: Cli) -> None:
    palbert.evaluate(run_copy, spreadsheet_safe=True)
    assert (run_copy / "predictions" / "sst-dev.csv").read_text("utf-8").splitlines()[0].endswith(",spreadsheet_safe")
    assert all(each.difference.difference == 0 for each in palbert.compare([trained, run_copy]))
