"""Reproducing tables: tables over seeds, resuming, failures, and results that are not mixed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import palbert
from palbert.errors import DataError, RecipeError, RunFolderError
from palbert.metrics import overall
from palbert.recipe.load import read_toml
from palbert.reproduction import runners
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.train import train

Cli = Callable[..., Any]


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.mark.usefixtures("no_plots")
def test_a_table_has_mean_spread_and_difference_over_seeds(folder: Path) -> None:
    [path] = palbert.reproduce(["mine/one"], out="out", seeds=2).tables
    row = read(path.with_suffix(".json"))["rows"][0]
    results = [read(folder / f"out/mine/one/plain/seed-{seed}.json") for seed in (0, 1)]
    values = [result["tasks"]["sst"]["accuracy"] for result in results]
    assert row["ours"]["sst"]["values"] == values
    assert row["ours"]["sst"]["mean"] == pytest.approx(sum(values) / 2)
    assert row["ours"]["sst"]["deviation"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert row["difference"]["sst"] == pytest.approx(sum(values) / 2 - 0.5)
    main = {
        task: (result["metrics"][task], scores[result["metrics"][task]])
        for result in results[:1]
        for task, scores in result["tasks"].items()
    }
    assert row["ours"]["overall"]["values"][0] == pytest.approx(overall(main))
    text = path.read_text("utf-8")
    assert f"| plain | {row['ours']['sst']['mean']:.3f} ± " in text and "reported 0.500" in text
    assert "2 seeds" in text and "data samples" in text and "Overall = " in text


@pytest.mark.usefixtures("no_plots")
def test_finished_rows_are_not_run_again_in_any_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    palbert.reproduce(["mine/one"], out="out")
    before = read(folder / "out/mine/one/plain/seed-0.json")
    assert not RunFolder(folder / "out/mine/one/plain/seed-0").checkpoints.exists()
    monkeypatch.setattr("palbert.reproduction.runners.train", lambda *given, **settings: pytest.fail("trained again"))
    assert palbert.reproduce(["mine/one", "mine/two"], out="out").failures == {}
    after = read(folder / "out/mine/two/same/seed-0.json")
    own = {"table": "mine/two", "row": "same", "label": "the same", "reported": {"sts": 0.7}}
    assert after == {**before, **own}


@pytest.mark.usefixtures("no_plots")
def test_every_row_is_run_once_before_any_row_is_run_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def note(recipe: Any, *, out: Path, **settings: Any) -> None:
        runs.append(f"{out.parent.name}/{out.name}")
        raise DataError("not here")

    monkeypatch.setattr("palbert.reproduction.runners.train", note)
    palbert.reproduce(["mine/one:frozen", "mine/two"], out="out", seeds=2)
    assert runs == ["frozen/seed-0", "same/seed-0", "frozen/seed-1", "same/seed-1"]


@pytest.mark.usefixtures("no_plots")
def test_an_interrupted_run_is_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    palbert.reproduce(["mine/two"], out="whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palbert.verbs.train.report_on", lambda *run: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(palbert.StoppedError) as caught:
            palbert.reproduce(["mine/two"], out="out")
    assert (caught.value.folder, caught.value.verb) == (Path("out"), "reproduce")
    resumed = []

    def note(*arguments: Any, **settings: Any) -> Path:
        resumed.append(settings["resume"])
        return train(*arguments, **settings).path

    monkeypatch.setattr(runners, "train", note)
    palbert.reproduce(["mine/two"], out="out")
    assert resumed == [True]
    stopped, whole = (read(folder / f"{out}/mine/two/same/seed-0.json") for out in ("out", "whole"))
    assert {**stopped, "seconds": 0} == {**whole, "seconds": 0}


@pytest.mark.usefixtures("no_plots")
def test_a_failing_row_is_reported_at_the_end_and_the_others_continue(folder: Path, cli: Cli) -> None:
    table = folder / "recipes/mine/one.toml"
    broken = '[rows.broken]\nlabel = "broken"\nsettings.data = "nowhere"\n'
    far = '[rows.far]\nlabel = "far"\nsettings.optimizer.learning_rate = 1e30\n'
    table.write_text(table.read_text("utf-8").replace("[rows.frozen]", f"{broken}{far}\n[rows.frozen]"), "utf-8")
    result = cli("reproduce", "mine/one", "--out", "out")
    assert result.code == 1
    assert "mine/one:broken, seed 0: " in result.err and "no such file" in result.err
    assert result.err.index("mine/one:broken cannot be run") < result.err.index("rows")  # of the first run's data
    assert "mine/one:far, seed 0: " in result.err and "Lower optimizer.learning_rate" in result.err
    assert "mine/one:plain" not in result.err.partition("error: ")[2]
    assert (folder / "out/mine/one/frozen/seed-0.json").is_file()
    assert not (folder / "out/mine/one/broken/seed-0.json").exists()
    assert "| broken | – | – | – | – | – | – | not run |" in result.out


@pytest.mark.usefixtures("no_plots")
def test_results_of_other_settings_are_not_mixed_in(folder: Path) -> None:
    palbert.reproduce(["mine/one"], out="out")
    with pytest.raises(RunFolderError, match=r"seed-0\.json: made with other settings"):
        palbert.reproduce(["mine/one"], out="out", overrides=["training.batch_size=4"])


@pytest.mark.usefixtures("no_plots")
def test_a_table_without_runnable_rows_is_refused(folder: Path) -> None:
    with pytest.raises(RecipeError, match="no such file"):
        palbert.reproduce(["mine/one"], data="nowhere", out="out")
    assert not (folder / "out").exists()


@pytest.mark.usefixtures("no_plots")
def test_one_row_is_run_by_name_without_changing_the_others(folder: Path) -> None:
    palbert.reproduce(["mine/one:frozen"], out="out")
    assert [path.parent.name for path in (folder / "out").rglob("seed-0.json")] == ["frozen"]
    page = palbert.results(["out"], out="page.md").read_text("utf-8")
    assert "| plain | reported 0.500" in page and "not run |" in page and "All weights are better" not in page
    with pytest.raises(RecipeError, match=r"rows\.frozne: no such row"):
        palbert.reproduce(["mine/one:frozne"], out="out")


@pytest.mark.usefixtures("no_plots")
def test_seeds_of_other_settings_are_refused_even_if_not_requested(folder: Path) -> None:
    palbert.reproduce(["mine/one:plain"], out="out", seeds=2)
    (folder / "out/mine/one/plain/seed-0.json").unlink()
    with pytest.raises(RunFolderError, match=r"seed-1\.json"):
        palbert.reproduce(["mine/one:plain"], out="out", overrides=["optimizer.learning_rate=1e-4"])
    with pytest.raises(RecipeError, match="--seeds"):
        palbert.reproduce(["mine/one:plain"], out="out", overrides=["seed=7"])


@pytest.mark.usefixtures("no_plots")
def test_an_interrupted_row_continues_after_its_data_was_moved(folder: Path) -> None:
    here = shutil.copytree(Path(palbert.__file__).parent / "data/samples", folder / "here")
    recipe = folder / "recipes/mine/base.toml"
    values = read_toml(recipe)
    values["tasks"] = {
        task: {split: f"{task}-{split}.tsv" for split in ("train", "dev")} for task in ("sst", "quora", "sts")
    }
    recipe.write_text(tomli_w.dumps(values), "utf-8")
    whole = palbert.reproduce(["mine/one:plain"], data=here, out="whole")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("palbert.verbs.train.report_on", lambda *run: (_ for _ in ()).throw(KeyboardInterrupt))
        palbert.reproduce(["mine/one:plain"], data=here, out="out")
    there = here.rename(folder / "there")
    assert palbert.reproduce(["mine/one:plain"], data=there, out="out").failures == whole.failures == {}
    ends = [read(folder / out / "mine/one/plain/seed-0.json") for out in ("out", "whole")]
    assert ends[0]["tasks"] == ends[1]["tasks"]
    (there / "sst-train.tsv").write_text((there / "sst-train.tsv").read_text("utf-8") + "x\tA film .\t1\n", "utf-8")
    with pytest.raises(RunFolderError, match=r"seed-0\.json: made with different content of sst-train\.tsv"):
        palbert.reproduce(["mine/one:plain"], data=there, out="out")


@pytest.mark.usefixtures("no_plots")
def test_smoke_results_never_reach_the_page(folder: Path, tiny_encoder: Path) -> None:
    palbert.reproduce(["mine/one"], out="out", smoke=True, encoder=tiny_encoder)
    assert "\n## Not run yet" in palbert.results(["out"], out="page.md").read_text("utf-8")
    assert "the scores mean nothing" in (folder / "out/mine/one.md").read_text("utf-8")
