"""Every row of every table that comes with palbert runs, on sample data with a tiny encoder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import palbert
from palbert.metrics import overall
from palbert.reproduction.fingerprint import fingerprint
from palbert.reproduction.tables import Table, known_tables, load_table

ROOT = Path(__file__).parents[2]
TABLES = [
    load_table(path) for path in sorted((ROOT / "recipes").glob("*/*.toml")) if "[rows." in path.read_text("utf-8")
]


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # reports without plots are quicker


def test_all_reports_have_their_tables() -> None:
    known = {name for name, _ in known_tables()}
    assert known == {table.name for table in TABLES}
    assert {
        "sullivan_kumar/table3",
        "sullivan_kumar/transfer",
        "cheng/table1",
        "cheng/figure2",
        "cheng/figure3",
    } <= known
    assert {"li/table4", "li/table5", "li/table6", "li/surgery"} <= known


WITH_OVERALL = [(table, name) for table in TABLES for name, row in table.spec.rows.items() if "overall" in row.reported]


@pytest.mark.parametrize(("table", "row"), WITH_OVERALL, ids=lambda part: getattr(part, "name", part))
def test_a_reported_overall_score_follows_its_formula(table: Table, row: str) -> None:
    metrics = {"sst": "accuracy", "quora": "accuracy", "sts": "pearson"}
    reported = table.spec.rows[row].reported
    scores = {task: (metric, reported[task]) for task, metric in metrics.items()}
    formula = table.values(row).get("overall", "scaled-mean")
    # Each score is rounded to three digits.
    assert overall(scores, formula) == pytest.approx(reported["overall"], abs=0.0008)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_two_rows_of_a_table_are_the_same_recipe(table: Table, tiny_encoder: Path) -> None:
    def differences(row: str) -> tuple[str, ...]:
        files = (str(task.get("train")) for task in table.values(row)["tasks"].values())  # sample rows replace them
        return (fingerprint(table.recipe(row, smoke=True, encoder=str(tiny_encoder))), *files)

    assert len({differences(row) for row in table.spec.rows}) == len(table.spec.rows)


def test_every_row_of_every_table_runs_in_smoke_mode(tiny_encoder: Path, tmp_path: Path) -> None:
    overrides = ["run.device=cpu", "training.steps_per_epoch=2", "training.batch_size=2"]
    done = palbert.reproduce(["all"], encoder=tiny_encoder, out=tmp_path, smoke=True, overrides=overrides)
    assert done.failures == {}
    for table in TABLES:
        summary = json.loads((tmp_path / f"{table.name}.json").read_text("utf-8"))
        assert [row["row"] for row in summary["rows"]] == list(table.spec.rows)
        for row in summary["rows"]:
            assert row["seeds"] == [0]
            assert set(row["reported"]) == set(row["difference"])


def test_the_results_page_matches_the_kept_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # with plots
    monkeypatch.chdir(ROOT)
    page = palbert.results([ROOT / "recipes" / "results"], out=tmp_path / "results.md").read_text("utf-8")
    assert page == (ROOT / "docs" / "results.md").read_text("utf-8")
    folders = (tmp_path / "images", ROOT / "docs" / "images")
    drawn, kept = (sorted(path.name for path in folder.glob("results-*")) for folder in folders)
    assert drawn == kept


def test_the_table_of_the_guide_is_valid(tiny_encoder: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guides" / "reproduce.md").read_text("utf-8")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "pals.toml").write_text(text.split("```toml\n")[1].split("```")[0], "utf-8")
    (tmp_path / "mine" / "base.toml").write_text('data = "samples"\ntasks = { sst = {}, quora = {} }\n', "utf-8")
    table = load_table(tmp_path / "mine" / "pals.toml")
    rows = {name: table.recipe(name, smoke=True, encoder=str(tiny_encoder)) for name in table.spec.rows}
    assert [len(recipe.tasks) for recipe in rows.values()] == [2, 2, 1]
    assert [recipe.adapters is not None for recipe in rows.values()] == [False, True, True]
