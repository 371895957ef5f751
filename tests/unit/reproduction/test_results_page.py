"""The results page: encoders apart, verdicts from the results, and claims that name what results have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import DataError, RecipeError, RunFolderError

MakeResult = Callable[..., dict[str, Any]]
Cli = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("no_plots")


def write(folder: Path, *results: dict[str, Any]) -> None:
    for result in results:
        path = folder / result["table"] / result["row"] / f"seed-{result['seed']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result), "utf-8")


def page(*folders: str) -> str:
    return palbert.results(folders, out="page.md").read_text("utf-8")


def test_the_page_computes_verdicts_and_keeps_encoders_apart(folder: Path, cli: Cli, make_result: MakeResult) -> None:
    plain = [make_result(seed=seed) for seed in (0, 1)]
    frozen = [make_result("frozen", seed=seed) for seed in (0, 1)]
    write(folder / "out", *plain, *frozen)
    encoder = {"name": "bge-large", "sha256": "1" * 64}
    tasks = {"sst": {"accuracy": 0.9}, "quora": {"accuracy": 0.9}}
    for row, high in (("plain", 0.9), ("frozen", 0.5)):
        for seed in (0, 1):
            overall = high + 0.01 * seed
            write(folder / "other", make_result(row, seed=seed, overall=overall, encoder=encoder, tasks=tasks))
    assert cli("results", "out", "other", "--out", "page.md").code == 0
    first, second, missing = sorted((folder / "page.md").read_text("utf-8").split("\n## ")[1:])[::-1]
    assert missing.startswith("Not run yet") and "mine/two" in missing
    assert first.startswith("tiny-bert") and second.startswith("bge-large")
    assert "+0.400 (" in second and re.search(r"\| All weights are better. \|  \| .* \| \*\*holds", second)
    assert "**All weights are better.** It holds: overall of `mine/one:plain` is +0.400 (" in second
    assert "2 seeds)" in second
    assert "bge-large has seen quora pairs in its own training" in second and "has seen" not in first


def test_a_page_without_results_says_not_run(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "none").mkdir()
    assert page("none").split("\n## ")[1:] == ["Not run yet\n\n- `mine/one`: My table\n- `mine/two`: Again\n"]
    assert "No results in none" in caplog.text
    with pytest.raises(DataError, match="nowhere: no such folder"):
        page("nowhere")


def test_a_folder_without_tables_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("palbert.reproduction.claims.FOLDERS", (Path("recipes"),))
    with pytest.raises(RecipeError, match=r"No tables and claims here"):
        page("none")


def test_palberts_own_recipes_come_first(folder: Path, make_result: MakeResult) -> None:
    write(folder / "out", make_result(), make_result(table="best/small", encoder={"name": "z", "sha256": "1" * 64}))
    assert [section.partition("\n")[0] for section in page("out").split("\n## ")[1:3]] == [
        "z, data samples",
        "tiny-bert, data samples",
    ]


def test_the_description_of_a_data_folder_stands_above_its_results(folder: Path, make_result: MakeResult) -> None:
    claims = folder / "recipes/claims.toml"
    text = 'intro = "Above all."\n' + claims.read_text("utf-8") + '[data]\nsamples = "A few rows."\n'
    claims.write_text(text, "utf-8")
    write(folder / "out", make_result())
    written = page("out")
    assert "Above all.\n" in written.partition("\n## ")[0]
    assert "## tiny-bert, data samples\n\nA few rows.\n" in written


def test_a_table_without_a_known_file_is_on_the_page_too(folder: Path, make_result: MakeResult) -> None:
    write(folder / "out", make_result(), make_result("frozen"))
    (folder / "recipes/mine/one.toml").unlink()
    (folder / "recipes/mine/two.toml").write_text('title = "Two"\n[rows.a]\nlabel = "a"\n', "utf-8")
    (folder / "recipes/claims.toml").write_text("[claims]\n", "utf-8")
    written = page("out")
    assert "### mine/one" in written and "| plain | 0." in written and "| frozen | 0." in written


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ('[claims.new]\ntext = "A"\nrow = "mine/one:plain"\nthan = ["mine/one:frozen"]\nmetric = "overal"\nmost = 0\n',
         "claims.new.metric: no 'overal' in mine/one:plain."),
        ('[scores.new]\ntext = "A"\nrows = ["mine/one:plain"]\nmetrics = ["sts.person"]\n', "mean 'sts.pearson'?"),
        ('[curves.new]\ntext = "A"\nrows = ["mine/one:plain"]\ntasks = ["stt"]\n', "curves.new.tasks: no 'stt'"),
        ('[labels.new]\ntext = "A"\nrow = "mine/one:plain"\ntask = "sstt"\n', "labels.new.task: no 'sstt'"),
        ('[transfer.new]\ntext = "A"\nshared = "mine/one:plain"\nalone = { nli = "mine/one:frozen" }\n', "no 'nli'"),
    ],
)  # fmt: skip
def test_claims_about_what_no_result_has_are_refused(
    folder: Path, make_result: MakeResult, claims: str, message: str
) -> None:
    write(folder / "out", make_result(), make_result("frozen"))
    with (folder / "recipes/claims.toml").open("a", encoding="utf-8") as stream:
        stream.write(claims)
    with pytest.raises(RecipeError, match=re.escape(message)):
        page("out")


def test_all_unknown_names_in_claims_are_reported_together(folder: Path, make_result: MakeResult) -> None:
    write(folder / "out", make_result())
    with (folder / "recipes/claims.toml").open("a", encoding="utf-8") as stream:
        stream.write('[scores.a]\ntext = "A"\nrows = ["mine/one:plain"]\nmetrics = ["nli", "sst"]\n')
        stream.write('[labels.b]\ntext = "B"\nrow = "mine/one:plain"\ntask = "sts"\n')
    with pytest.raises(RecipeError) as caught:
        page("out")
    first, second = caught.value.message.splitlines()
    assert "scores.a.metrics: no 'nli'" in first and "labels.b.task: no 'sts'" in second


def test_only_a_results_page_is_replaced(folder: Path, make_result: MakeResult) -> None:
    write(folder / "out", make_result())
    first = page("out")
    assert page("out") == first
    (folder / "notes.md").write_text("My own words.", "utf-8")
    with pytest.raises(RunFolderError, match="is not a results page"):
        palbert.results("out", out="notes.md")
    assert (folder / "notes.md").read_text("utf-8") == "My own words."
