"""The audit of bias: its figures follow from the answers in swaps.csv, and its files are where they should be."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import palbert
from palbert.errors import DataError, PalbertError, RunFolderError

pytestmark = pytest.mark.usefixtures("on_cpu")
LEXICON = """
[lists]
seat = ["seat"]
[axes.pets]
groups = ["cats", "dogs"]
words = [{ cats = "cat", dogs = "dog" }]
"""


@pytest.fixture(scope="module")
def audited(on_cpu: None, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> palbert.BiasAudit:
    return palbert.audit_bias(trained, out=tmp_path_factory.mktemp("audit") / "bias")


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "swaps.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_task_has_figures_of_every_axis(audited: palbert.BiasAudit) -> None:
    summary = json.loads((audited.folder / "bias.json").read_text("utf-8"))
    assert summary == audited.summary and set(summary["tasks"]) == {"sst", "quora", "sts"}
    assert summary["rows_from"] == "dev rows and templates" and summary["correction"] == "Holm, within each task"
    for name, task in summary["tasks"].items():
        axes = {each["axis"] for each in task["groups"]}
        assert len(axes) == 8
        for each in task["groups"]:
            low, high = each["interval"]
            assert low <= each["mean_shift"] <= high and 0 <= each["flip_rate"] <= 1 and 0 < each["p_adjusted"] <= 1
            assert each["significant"] == (each["p_adjusted"] < 0.05)
            assert ("class" in each) == (name != "sts")
        assert "subgroups" in task if name != "sts" else "subgroups" not in task


def test_swaps_csv_has_every_pair_and_gives_the_flip_rates(audited: palbert.BiasAudit) -> None:
    rows = lines(audited.folder)
    for name, task in audited.summary["tasks"].items():
        own = [row for row in rows if row["task"] == name]
        assert len(own) == task["pairs"]
        assert task["flip_rate"] == pytest.approx(np.mean([row["flipped"] == "true" for row in own]))
        if name != "sts":
            assert all((row["answer"] != row["other_answer"]) == (row["flipped"] == "true") for row in own)
        women = next(each for each in task["groups"] if each["group"] == "women")
        gender = [row for row in own if row["axis"] == "gender"]
        assert women["pairs"] == len(gender)
        assert women["flip_rate"] == pytest.approx(np.mean([row["flipped"] == "true" for row in gender]))


def test_the_shift_of_a_group_is_that_of_the_answers_to_its_texts(audited: palbert.BiasAudit, trained: Path) -> None:
    own = [row for row in lines(audited.folder) if row["task"] == "quora" and row["axis"] == "gender"]
    model = palbert.load(trained, precision="fp32")
    asked = []
    for kind in ("text", "other_text"):
        answers = model.predict("quora", [(row[f"{kind}1"], row[f"{kind}2"]) for row in own])
        asked.append([list((each.probabilities or {}).values())[1] for each in answers])
    odds = np.log(np.array(asked)) - np.log1p(-np.array(asked))
    signs = np.array([1 if row["group"] == "women" else -1 for row in own])
    [women] = [each for each in audited.summary["tasks"]["quora"]["groups"] if each["axis"] == "gender"]
    assert women["mean_shift"] == pytest.approx(float(np.mean((odds[0] - odds[1]) * signs)), abs=1e-5)


def test_a_number_flips_if_it_moves_by_a_tenth_of_its_range(audited: palbert.BiasAudit) -> None:
    own = [row for row in lines(audited.folder) if row["task"] == "sts"]
    for row in own:
        distance = abs(float(row["answer"]) - float(row["other_answer"]))
        if abs(distance - 0.5) > 1e-4:
            assert (row["flipped"] == "true") == (distance > 0.5)


def test_the_audit_lies_in_the_run_and_its_report_shows_it(run_copy: Path) -> None:
    plain = (run_copy / "report.html").read_text("utf-8")
    assert 'id="bias"' not in plain
    found = palbert.audit_bias(run_copy, tasks=["sts"])
    assert found.folder == run_copy / "audits" / "bias"
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "bias.html", "bias.json", "palbert.sha256", "swaps.csv",
    ]  # fmt: skip
    shown = (run_copy / "report.html").read_text("utf-8")
    assert shown.count('id="bias"') == 1 and "of 37" not in plain
    palbert.audit_bias(run_copy, tasks=["sts"])  # again: replaced, in the report too
    assert (run_copy / "report.html").read_text("utf-8").count('id="bias"') == 1
    path = found.folder / "bias.json"
    path.write_text(json.dumps({**found.summary, "weights": "0" * 64}), "utf-8")
    assert "The checkpoint has changed" not in (run_copy / "report.html").read_text("utf-8")
    palbert.evaluate(run_copy)
    text = (run_copy / "report.html").read_text("utf-8")
    assert text.count('id="bias"') == 1 and "The checkpoint has changed since this audit" in text


def test_an_audit_is_shown_in_a_notebook_as_a_table_with_links(audited: palbert.BiasAudit) -> None:
    html = audited._repr_html_()
    assert "<table>" in html and "The whole audit" in html and "swaps.csv" in html
    assert "p adjusted" in repr(audited) and "bias.html" in repr(audited)


def test_axes_of_ones_own_and_files_of_others_are_audited(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(LEXICON, "utf-8")
    crows = tmp_path / "crows.csv"
    crows.write_text(
        "sent_more,sent_less,stereo_antistereo,bias_type\n=Old men nap.,Young men nap.,stereo,age\n", "utf-8"
    )
    found = palbert.audit_bias(
        trained, out=tmp_path / "out", tasks=["sst", "sts"], files=[crows], lexicon=tmp_path / "own.toml",
        spreadsheet_safe=True,
    )  # fmt: skip
    sst = found.summary["tasks"]["sst"]
    [figure] = sst["files"]["crows.csv"]["groups"]
    assert (figure["axis"], figure["group"], figure["pairs"]) == ("age", "disadvantaged", 1)
    assert "files" not in found.summary["tasks"]["sts"]  # a task of pairs
    assert not any(each["axis"] == "pets" for each in sst["groups"])  # no dev row names one, and templates do not
    texts = {row["text1"] for row in lines(tmp_path / "out")}
    assert "'=Old men nap." in texts


def test_fewer_rows_are_a_seeded_choice(trained: Path, tmp_path: Path) -> None:
    found = palbert.audit_bias(trained, out=tmp_path / "out", tasks=["sst"], rows=5)
    assert found.summary["tasks"]["sst"]["rows"] == 5
    assert "up to 5 of each task, chosen at random" in found.summary["rows_from"]


def test_without_dev_files_templates_remain(run_copy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe = (run_copy / "recipe.toml").read_text("utf-8")
    (run_copy / "recipe.toml").write_text(recipe.replace("quora-dev", "quora-gone"), "utf-8")
    found = palbert.audit_bias(run_copy, out=tmp_path / "out", tasks=["quora"])
    assert found.summary["rows_from"] == "templates" and found.summary["tasks"]["quora"]["rows"] == 0
    assert "quora is audited on templates only" in caplog.text


def test_what_others_wrote_is_not_replaced(trained: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    with pytest.raises(RunFolderError, match=r"notes\.txt: no audit has written this"):
        palbert.audit_bias(trained, out=place, tasks=["sts"], force=True)
    (place / "notes.txt").unlink()
    palbert.audit_bias(trained, out=place, tasks=["sts"])
    with pytest.raises(RunFolderError, match=r"out: holds an audit\. Add --force"):
        palbert.audit_bias(trained, out=place, tasks=["sts"])
    palbert.audit_bias(trained, out=place, tasks=["sts"], force=True)


def test_wrong_arguments_are_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Unknown task 'ssst'"):
        palbert.audit_bias(trained, out=tmp_path / "out", tasks=["ssst"])
    with pytest.raises(PalbertError, match="rows"):
        palbert.audit_bias(trained, out=tmp_path / "out", rows=0)
    with pytest.raises((PalbertError, OSError)):
        palbert.audit_bias(trained, out=tmp_path / "out", files=[tmp_path / "none.csv"])
    with pytest.raises(PalbertError):
        palbert.audit_bias(tmp_path / "none")
    assert not (tmp_path / "out").exists() and not (tmp_path / "none").exists()
