"""Reproducing tables: results, resuming, failures, several at a time, and the page of all of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import tomli_w

import palbert
from palbert.errors import DataError, RecipeError, RunFolderError
from palbert.metrics import overall
from palbert.recipe.load import read_toml
from palbert.runtime.run_folder import RunFolder

Cli = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a table of two rows and one that repeats a row, and a claim, where palbert looks for them."""
    tiny_recipe["training"].update(epochs=1, steps_per_epoch=3)
    folder = tmp_path / "recipes" / "mine"
    folder.mkdir(parents=True)
    (folder / "base.toml").write_text(tomli_w.dumps({"description": "Base.", **tiny_recipe}), "utf-8")
    table: dict[str, Any] = {
        "title": "My table",
        "rows": {
            "plain": {"label": "plain", "reported": {"sst": 0.5, "overall": 0.6}},
            "frozen": {"label": "frozen", "like": "plain", "settings": {"encoder": {"frozen": True}}, "note": "Heads."},
        },
    }
    again = {"title": "Again", "rows": {"same": {"label": "the same", "like": "one:plain", "reported": {"sts": 0.7}}}}
    claim = {"text": "All weights are better.", "row": "mine/one:plain", "than": ["mine/one:frozen"], "least": 0.0}
    for name, values in {"mine/one": table, "mine/two": again, "claims": {"claims": {"all": claim}}}.items():
        (folder.parent / f"{name}.toml").write_text(tomli_w.dumps(values), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.mark.usefixtures("no_plots")
def test_a_result_holds_what_tables_claims_and_plots_need(folder: Path) -> None:
    done = palbert.reproduce(["mine/one"], out="out", seeds=2, keep_checkpoints=True)
    assert done.failures == {}
    frozen, plain = (read(folder / "out/mine/one" / row / "seed-1.json") for row in ("frozen", "plain"))
    report = read(folder / "out/mine/one/plain/seed-1/report.json")
    assert plain["tasks"] == report["tasks"] and plain["overall"] == report["overall"]
    assert plain["seed"] == 1 and plain["reported"] == {"sst": 0.5, "overall": 0.6}
    assert plain["parameters"]["total"] == plain["parameters"]["trained"] == frozen["parameters"]["total"]
    assert 0 < frozen["parameters"]["trained"] < frozen["parameters"]["total"] / 10
    for task, matrix in plain["confusion"].items():
        correct = sum(matrix["counts"][index][index] for index in range(len(matrix["classes"])))
        assert correct / sum(map(sum, matrix["counts"])) == pytest.approx(plain["tasks"][task]["accuracy"])
    assert sum(plain["numbers"]["sts"]["rows"]) == plain["rows"]["sts"]["dev"]
    assert set(plain["losses"]) == {"sst", "quora", "sts"} & set(plain["losses"]) != set()
    assert len(plain["encoder"]["sha256"]) == 64 and plain["data"]["variant"] == "samples"
    assert str(folder) not in json.dumps(plain) and "/tmp" not in json.dumps(plain)


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
def test_what_is_finished_is_not_run_again_in_any_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    palbert.reproduce(["mine/one"], out="out")
    before = read(folder / "out/mine/one/plain/seed-0.json")
    assert not RunFolder(folder / "out/mine/one/plain/seed-0").checkpoints.exists()
    monkeypatch.setattr("palbert.reproduction.reproduce.train", lambda *given, **settings: pytest.fail("trained again"))
    assert palbert.reproduce(["mine/one", "mine/two"], out="out").failures == {}
    after = read(folder / "out/mine/two/same/seed-0.json")
    own = {"table": "mine/two", "row": "same", "label": "the same", "reported": {"sts": 0.7}}
    assert after == {**before, **own}


@pytest.mark.usefixtures("no_plots")
def test_every_row_is_run_once_before_one_is_run_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def note(recipe: Any, *, out: Path, **settings: Any) -> None:
        runs.append(f"{out.parent.name}/{out.name}")
        raise DataError("not here")

    monkeypatch.setattr("palbert.reproduction.reproduce.train", note)
    palbert.reproduce(["mine/one:frozen", "mine/two"], out="out", seeds=2)
    assert runs == ["frozen/seed-0", "same/seed-0", "frozen/seed-1", "same/seed-1"]


@pytest.mark.usefixtures("no_plots")
def test_a_run_that_was_stopped_is_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    palbert.reproduce(["mine/two"], out="whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palbert.verbs.train.evaluate", lambda run: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(palbert.StoppedError) as caught:
            palbert.reproduce(["mine/two"], out="out")
    assert (caught.value.folder, caught.value.verb) == (Path("out"), "reproduce")
    resumed = []
    from palbert.reproduction import reproduce

    original = reproduce.train
    monkeypatch.setattr(reproduce, "train", lambda *a, **k: resumed.append(k["resume"]) or original(*a, **k))
    palbert.reproduce(["mine/two"], out="out")
    assert resumed == [True]
    stopped, whole = (read(folder / f"{out}/mine/two/same/seed-0.json") for out in ("out", "whole"))
    assert {**stopped, "seconds": 0} == {**whole, "seconds": 0}


@pytest.mark.usefixtures("no_plots")
def test_a_row_that_fails_is_told_at_the_end_and_the_others_go_on(folder: Path, cli: Cli) -> None:
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
def test_several_at_a_time_give_what_one_after_the_other_gives(folder: Path) -> None:
    one, several = (palbert.reproduce(["mine/one"], out=f"out{jobs}", jobs=jobs) for jobs in (1, 2))
    assert one.failures == several.failures == {}
    for row in ("plain", "frozen"):
        results = [read(folder / f"out{jobs}/mine/one/{row}/seed-0.json") for jobs in (1, 2)]
        assert results[0]["tasks"] == results[1]["tasks"] and results[0]["losses"] == results[1]["losses"]
    assert (folder / "out2/mine/one/plain/seed-0.log").is_file()


@pytest.mark.usefixtures("no_plots")
def test_a_child_that_fails_is_told_with_its_own_words(folder: Path) -> None:
    odd = 'title = "Odd"\n[rows.odd]\nlabel = "odd"\nsettings.adapters = { name = "pal", size = 7 }\n'
    (folder / "recipes/mine/odd.toml").write_text(odd, "utf-8")
    done = palbert.reproduce(["mine/odd"], out="out", jobs=2)
    assert list(done.failures) == ["mine/odd:odd, seed 0"]
    assert "12 heads cannot share a PAL of size 7 evenly" in done.failures["mine/odd:odd, seed 0"]


def test_children_take_the_gpus_in_turn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        time.sleep(0.05)  # long enough for the others to start
        seen.append(env["CUDA_VISIBLE_DEVICES"])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    monkeypatch.setattr("subprocess.run", run)
    palbert.reproduce(["mine/one"], out="out", seeds=2, jobs=4, overrides=["run.device=auto"])
    assert sorted(seen) == ["5", "5", "7", "7"]
    seen.clear()
    palbert.reproduce(["mine/one:plain"], out="named", seeds=2, jobs=2, overrides=["run.device=cuda:1"])
    assert seen == ["5,7", "5,7"]


@pytest.mark.usefixtures("no_plots")
def test_results_of_other_settings_are_not_mixed_in(folder: Path) -> None:
    palbert.reproduce(["mine/one"], out="out")
    with pytest.raises(RunFolderError, match=r"seed-0\.json: made with other settings"):
        palbert.reproduce(["mine/one"], out="out", overrides=["training.batch_size=4"])


@pytest.mark.usefixtures("no_plots")
def test_a_table_of_which_no_row_can_be_run_is_the_users_fault(folder: Path) -> None:
    with pytest.raises(RecipeError, match="no such file"):
        palbert.reproduce(["mine/one"], data="nowhere", out="out")
    assert not (folder / "out").exists()


@pytest.mark.usefixtures("no_plots")
def test_the_page_computes_verdicts_and_tells_encoders_apart(folder: Path, cli: Cli) -> None:
    palbert.reproduce(["mine/one"], out="out", seeds=2)
    shutil.copytree("out", "other")
    for path in (folder / "other").rglob("seed-*.json"):
        changed = read(path)
        changed["encoder"]["name"] = "bge-large"
        changed["overall"] = 0.9 + 0.01 * changed["seed"] if changed["row"] == "plain" else 0.5 + 0.01 * changed["seed"]
        path.write_text(json.dumps(changed))
    assert cli("results", "out", "other", "--out", "page.md").code == 0
    first, second, missing = sorted((folder / "page.md").read_text("utf-8").split("\n## ")[1:])[::-1]
    assert missing.startswith("Not run yet") and "mine/two" in missing
    assert first.startswith("tiny-bert") and second.startswith("bge-large")
    assert "+0.400 (" in second and re.search(r"\| All weights are better. \|  \| .* \| \*\*holds", second)
    assert "**All weights are better.** It holds: overall of `mine/one:plain` is +0.400 (" in second
    assert "2 seeds)" in second
    assert "bge-large has seen quora pairs in its own training" in second and "has seen" not in first


@pytest.mark.usefixtures("no_plots")
def test_a_page_without_results_says_not_run(folder: Path) -> None:
    (folder / "none").mkdir()
    page = palbert.results(["none"], out="page.md").read_text("utf-8")
    assert page.split("\n## ")[1:] == ["Not run yet\n\n- `mine/one`: My table\n- `mine/two`: Again\n"]
    with pytest.raises(DataError, match="nowhere: no such folder"):
        palbert.results(["nowhere"], out="page.md")


@pytest.mark.usefixtures("no_plots")
def test_one_row_is_run_by_name_and_the_others_stay_as_they_are(folder: Path) -> None:
    palbert.reproduce(["mine/one:frozen"], out="out")
    assert [path.parent.name for path in (folder / "out").rglob("seed-0.json")] == ["frozen"]
    page = palbert.results(["out"], out="page.md").read_text("utf-8")
    assert "| plain | reported 0.500" in page and "not run |" in page and "All weights are better" not in page
    with pytest.raises(RecipeError, match=r"rows\.frozne: no such row"):
        palbert.reproduce(["mine/one:frozne"], out="out")


@pytest.mark.usefixtures("no_plots")
def test_seeds_of_other_settings_are_refused_though_they_are_not_asked_for(folder: Path) -> None:
    palbert.reproduce(["mine/one:plain"], out="out", seeds=2)
    (folder / "out/mine/one/plain/seed-0.json").unlink()
    with pytest.raises(RunFolderError, match=r"seed-1\.json"):
        palbert.reproduce(["mine/one:plain"], out="out", overrides=["optimizer.learning_rate=1e-4"])
    with pytest.raises(RecipeError, match="--seeds"):
        palbert.reproduce(["mine/one:plain"], out="out", overrides=["seed=7"])


@pytest.mark.usefixtures("no_plots")
def test_a_result_that_is_there_twice_counts_once_and_another_is_refused(folder: Path) -> None:
    palbert.reproduce(["mine/one:plain"], out="out", seeds=2)
    shutil.copytree(folder / "out", folder / "copy")
    once, twice = (palbert.results(folders, out="page.md").read_text("utf-8") for folders in (["out"], ["out", "copy"]))
    assert once == twice
    path = folder / "copy/mine/one/plain/seed-1.json"
    path.write_text(json.dumps({**read(path), "fingerprint": "other"}))
    with pytest.raises(DataError, match=r"copy.*seed-1\.json: made with other settings"):
        palbert.results(["out", "copy"], out="page.md")


@pytest.mark.usefixtures("no_plots")
def test_a_half_done_row_goes_on_though_its_data_was_moved(folder: Path) -> None:
    here = shutil.copytree(Path(palbert.__file__).parent / "data/samples", folder / "here")
    recipe = folder / "recipes/mine/base.toml"
    values = read_toml(recipe)
    values["tasks"] = {
        task: {split: f"{task}-{split}.tsv" for split in ("train", "dev")} for task in ("sst", "quora", "sts")
    }
    recipe.write_text(tomli_w.dumps(values), "utf-8")
    whole = palbert.reproduce(["mine/one:plain"], data=here, out="whole")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("palbert.verbs.train.evaluate", lambda run: (_ for _ in ()).throw(KeyboardInterrupt))
        palbert.reproduce(["mine/one:plain"], data=here, out="out")
    there = here.rename(folder / "there")
    assert palbert.reproduce(["mine/one:plain"], data=there, out="out").failures == whole.failures == {}
    ends = [read(folder / out / "mine/one/plain/seed-0.json") for out in ("out", "whole")]
    assert ends[0]["tasks"] == ends[1]["tasks"]
    (there / "sst-train.tsv").write_text((there / "sst-train.tsv").read_text("utf-8") + "x\tA film .\t1\n", "utf-8")
    with pytest.raises(RunFolderError, match=r"seed-0\.json: made with another content of sst-train\.tsv"):
        palbert.reproduce(["mine/one:plain"], data=there, out="out")


@pytest.mark.usefixtures("no_plots")
def test_a_table_that_is_not_among_the_known_ones_is_on_the_page_too(folder: Path) -> None:
    palbert.reproduce(["mine/one"], out="out")
    (folder / "recipes/mine/one.toml").unlink()
    (folder / "recipes/mine/two.toml").write_text('title = "Two"\n[rows.a]\nlabel = "a"\n', "utf-8")
    (folder / "recipes/claims.toml").write_text("[claims]\n", "utf-8")
    page = palbert.results(["out"], out="page.md").read_text("utf-8")
    assert "### mine/one" in page and "| plain | 0." in page and "| frozen | 0." in page


@pytest.mark.usefixtures("no_plots")
def test_a_broken_result_is_named_and_a_folder_without_any_is_said_to_be(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "none").mkdir()
    palbert.results(["none"], out="page.md")
    assert "No results in none" in caplog.text
    path = folder / "none/mine/one/plain/seed-0.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"table": ')
    with pytest.raises(RunFolderError, match=r"seed-0\.json: not the result of a row"):
        palbert.results(["none"], out="page.md")


@pytest.mark.usefixtures("no_plots")
def test_smoke_results_never_reach_the_page(folder: Path, tiny_encoder: Path) -> None:
    palbert.reproduce(["mine/one"], out="out", smoke=True, encoder=tiny_encoder)
    assert "\n## Not run yet" in palbert.results(["out"], out="page.md").read_text("utf-8")
    assert "the scores mean nothing" in (folder / "out/mine/one.md").read_text("utf-8")


def test_the_page_shows_the_plots_whose_rows_were_run(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    plots = """
[curves.both]
text = "Two rows"
tasks = ["sst", "quora", "sts"]
rows = ["mine/one:plain", "mine/one:frozen"]
[curves.none]
text = "A row that was not run"
tasks = ["sst"]
rows = ["mine/two:same"]
[scores.both]
text = "Scores of two rows"
metrics = ["sst", "overall"]
rows = ["mine/one:plain", "mine/one:frozen"]
[labels.sst]
text = "Labels of sst"
row = "mine/one:plain"
task = "sst"
[answers.plain]
text = "Answers of a row"
row = "mine/one:plain"
"""
    with (folder / "recipes/claims.toml").open("a", encoding="utf-8") as stream:
        stream.write(plots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)  # the runs' own reports need no plots
        palbert.reproduce(["mine/one"], out="out", overrides=["training.log_every=1", "training.sampler=round-robin"])
    page = palbert.results(["out"], out="docs/page.md").read_text("utf-8")
    assert "### Two rows" in page and "### Answers of a row" in page and "### Scores of two rows" in page
    assert "### A row that was not run" not in page
    named = re.findall(r"\]\((images/[^)]+\.svg)\)", page)
    assert len(named) == 3 + 1 + 1 + 2 * 2 + 2
    for name in named:
        root = ElementTree.parse(folder / "docs" / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in (folder / "docs" / name).read_text("utf-8")


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ('[claims.new]\ntext = "A"\nrow = "mine/one:plain"\nthan = ["mine/one:frozen"]\nmetric = "overal"\nmost = 0\n',
         "claims.new.metric: no 'overal' in mine/one:plain."),
        ('[scores.new]\ntext = "A"\nrows = ["mine/one:plain"]\nmetrics = ["sts.person"]\n', "mean 'sts.pearson'?"),
        ('[curves.new]\ntext = "A"\nrows = ["mine/one:plain"]\ntasks = ["stt"]\n', "curves.new.tasks: no 'stt'"),
        ('[labels.new]\ntext = "A"\nrow = "mine/one:plain"\ntask = "sstt"\n', "labels.new.task: no 'sstt'"),
        ('[transfer.new]\ntext = "A"\nshared = "mine/one:plain"\nalone = { nli = "mine/one:frozen" }\n', "no 'nli'"),
    ],
)  # fmt: skip
def test_claims_about_what_no_result_has_are_refused(folder: Path, claims: str, said: str) -> None:
    palbert.reproduce("mine/one", out="out")
    with (folder / "recipes/claims.toml").open("a", encoding="utf-8") as stream:
        stream.write(claims)
    with pytest.raises(RecipeError, match=re.escape(said)):
        palbert.results("out", out="page.md")


@pytest.mark.usefixtures("no_plots")
def test_a_page_takes_the_place_of_another_page_only(folder: Path) -> None:
    palbert.reproduce("mine/one", out="out")
    page = palbert.results("out", out="page.md")
    assert palbert.results("out", out="page.md") == page
    (folder / "notes.md").write_text("My own words.", "utf-8")
    with pytest.raises(RunFolderError, match="holds something else"):
        palbert.results("out", out="notes.md")
