"""palbert.evaluate on other rows: read as the task's rows are, reported in a folder of their own."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import DataError
from palbert.recipe.load import load_recipe
from palbert.verbs.other_rows import other_rows

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
SAMPLES = Path(palbert.__file__).parent / "data" / "samples"


def sst_rows() -> list[dict[str, str]]:
    with (SAMPLES / "sst-dev.tsv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_the_dev_rows_as_another_file_or_in_memory_get_the_scores_of_dev(
    run_copy: Path, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    before = snapshot(run_copy)
    dev = json.loads(before["report.json"])
    for data, place in (
        ({"sst": SAMPLES / "sst-dev.tsv"}, "sst-dev"),
        ({"sst": sst_rows()}, "rows"),
    ):
        report = palbert.evaluate(run_copy, data=data)
        own = run_copy / "evaluations" / place
        assert report.page == own / "report-test.html" and report.page.is_file()
        written = json.loads((own / "report-test.json").read_text("utf-8"))
        assert written == report.summary and written["tasks"] == {"sst": dev["tasks"]["sst"]}
        assert written["baselines"]["majority / mean"] == {"sst": dev["baselines"]["majority / mean"]["sst"]}
        predictions = (own / "predictions" / "sst-test.csv").read_bytes()
        if place == "sst-dev":
            assert predictions == before["predictions/sst-dev.csv"]
    assert list(report.summary["files"]) == ['data["sst"]["test"]']
    after = snapshot(run_copy)
    assert {name: after[name] for name in before} == before


def test_other_rows_of_the_same_name_get_a_number_and_the_same_rows_do_not(run_copy: Path) -> None:
    rows = sst_rows()
    names = [
        palbert.evaluate(run_copy, data={"sst": each}).page.parent.name
        for each in (rows[:20], rows[20:50], rows[:20], rows[20:50])
    ]
    assert names == ["rows", "rows-2", "rows", "rows-2"]
    assert palbert.evaluate(run_copy, data={"sst": rows[:20]}, name="mine").page.parent.name == "mine"
    last = palbert.evaluate(run_copy, data={"sst": rows[:20]}, checkpoint="last")
    assert last.page.parent.name == "rows-last" and last.summary["checkpoint"] == "last"


def test_columns_with_other_names_can_be_given(run_copy: Path, tmp_path: Path, cli: Cli) -> None:
    with (tmp_path / "reviews.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["review", "stars"])
        writer.writerows([row["sentence"], row["sentiment"]] for row in sst_rows())
    asked = ("evaluate", run_copy, "--test", f"sst={tmp_path / 'reviews.csv'}", "--column", "review", "--json")
    result = cli(*asked, "--label", "stars")
    dev = json.loads((run_copy / "report.json").read_text("utf-8"))
    assert json.loads(result.out)["tasks"]["sst"] == pytest.approx(dev["tasks"]["sst"])
    result = cli(*asked)
    assert result.code == 2 and "reviews.csv has no column 'sentiment'" in result.err


def test_training_files_that_are_gone_leave_out_only_the_baselines(run_copy: Path, cli: Cli) -> None:
    recipe = run_copy / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace("sst-train.tsv", "gone.tsv"), "utf-8")
    result = cli("evaluate", run_copy, "--test", f"sst={SAMPLES / 'sst-dev.tsv'}")
    assert result.code == 0 and "majority" not in result.out
    dev = json.loads((run_copy / "report.json").read_text("utf-8"))
    assert f"{dev['tasks']['sst']['accuracy']:.3f}" in result.out


def test_scores_on_training_rows_are_marked(run_copy: Path) -> None:
    report = palbert.evaluate(run_copy, data={"sst": SAMPLES / "sst-train.tsv"})
    assert "sst: trained on its test rows, so the score says nothing about other rows." in report.summary["notes"]


@pytest.mark.parametrize(
    ("data", "options", "says"),
    [
        ({}, {}, "Expected rows of at least one task"),
        ({"ssst": "a.csv"}, {}, "Unknown task 'ssst'. Known: quora, sst, sts. Did you mean 'sst'?"),
        ({"sst": "nowhere.csv"}, {}, "No such file"),
        ({"sst": SAMPLES / "sst-dev.tsv"}, {"text": ["a", "b"]}, "Task 'sst' takes 1 text columns, found 2."),
        ({"sst": SAMPLES / "sst-dev.tsv"}, {"name": "../up"}, "'../up' cannot be the name of an evaluation."),
        ({"sst": SAMPLES / "sst-dev.tsv"}, {"name": "best-sst"}, "the names of checkpoints are taken"),
        ({"sst": [{"sentence": "a", "sentiment": "9"}]}, {}, 'data["sst"]["test"], row 0'),
    ],
)
def test_rows_that_cannot_be_scored_are_refused_and_nothing_is_written(
    data: dict[str, Any], options: dict[str, Any], says: str, trained: Path
) -> None:
    with pytest.raises(DataError) as caught:
        palbert.evaluate(trained, data=data, **options)
    assert says in str(caught.value)
    assert not (trained / "evaluations").exists()


def test_only_the_given_tasks_have_rows(trained: Path) -> None:
    recipe = load_recipe(trained / "recipe.toml")
    with other_rows(recipe, {"sst": [SAMPLES / "sst-dev.tsv", SAMPLES / "sst-train.tsv"]}) as rows:
        assert rows.label == "sst-dev+sst-train"
        assert [len(task.test) for task in rows.recipe.tasks.values()] == [2, 0, 0]
        assert [task.train for task in rows.recipe.tasks.values()] == [task.train for task in recipe.tasks.values()]
