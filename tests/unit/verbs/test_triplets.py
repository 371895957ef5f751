"""Triplets in whole runs: samplers, pieces, gradient methods, resuming, the data check and the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palbert
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.training.hooks import read_records
from palbert.training.trainer import Trainer
from palbert.verbs.check import check_data, label_shares

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Write = Callable[..., Path]


@pytest.fixture
def nli(tmp_path: Path) -> Path:
    """Write eight premises with both labels, one of them with two of each, and two premises with only one label."""
    lines = ["premise\thypothesis\tlabel"]
    for number in range(8):
        lines += [f"a man {number}\tthe man is {number}\tentailment", f"a man {number}\tno film\tcontradiction"]
        lines += [f"a man {number}\tit is good\tneutral"]
    lines += ["a man 0\tit is\tentailment", "a man 0\tthis is " + "very " * 30 + "long\tcontradiction"]
    lines += ["a woman\tthe woman\tentailment", "a phone\tthe film\tcontradiction"]
    path = tmp_path / "nli.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def values(encoder: Path, nli: Path, **training: Any) -> dict[str, Any]:
    extra = {"train": str(nli), "form": "triplets", "factor": 0.5, "batch_size": 3, "max_length": 16}
    return {
        "seed": 3,
        "data": "samples",
        "encoder": {"name": str(encoder)},
        "tasks": {"sst": {}, "sts": {"extra": {"nli": extra}}},
        "objectives": [{"name": "supervised-simcse", "tasks": ["sts"]}, "rdrop"],
        "training": {"epochs": 2, "steps_per_epoch": 6, "batch_size": 4, "log_every": 1, "save_every": 2, **training},
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }


def test_a_run_draws_logs_and_reports_triplets_as_a_set_of_its_task(
    tiny_encoder: Path, nli: Path, write_recipe: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = {"name": "temperature", "temperature": float("inf")}
    recipe = write_recipe(values(tiny_encoder, nli, sampler=sampler, steps_per_epoch=20))
    with caplog.at_level("INFO"):
        run = palbert.train(recipe, out=tmp_path / "run")
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("sts+nli train")]
    assert said == [
        "sts+nli train: 9 triplets, 1 cut at 16 tokens, 8 left out by the label mapping, "
        "2 premises without entailment or contradiction left out"
    ]
    records = read_records(run / "metrics.jsonl")
    [epoch, _] = [record for record in records if record["kind"] == "epoch"]
    assert epoch["planned"] == pytest.approx({"sst": 8, "sts": 8, "sts+nli": 4})
    named = {name for record in records if record["kind"] == "train" for name in record["losses"]}
    assert named == {"sst", "sts", "sts+nli"}
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert report["rows"]["sts+nli"] == {"train": 9} and set(report["tasks"]) == {"sst", "sts"}
    assert "sts+nli train: 2 premises without entailment or contradiction were left out." in report["notes"]
    assert any(note.startswith("sts+nli train: 1 of 9 rows were cut at 16 tokens.") for note in report["notes"])
    page = (run / "report.html").read_text("utf-8")
    assert '<th>sts+nli</th>\n<td class="right">9</td>' in page  # triplets, not their sentences
    assert palbert.load(run).predict("sts", [("a man", "the man")])


@pytest.mark.parametrize("method", ["sum", "pcgrad", {"name": "pcgrad", "memory": "recompute"}])
def test_rows_and_triplets_of_a_task_share_a_step_and_count_as_one_task(
    tiny_encoder: Path, nli: Path, write_recipe: Write, tmp_path: Path, method: Any
) -> None:
    recompute = isinstance(method, dict)
    given = values(tiny_encoder, nli, sampler="mixed", gradients=method, accumulation=1 if recompute else 2)
    given["adapters"] = {"name": "low-rank", "size": 4}
    run = palbert.train(write_recipe(given), out=tmp_path / "run")
    lines = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]
    assert set(lines[0]["losses"]) == {"sst", "sts", "sts+nli"}
    if method != "sum":
        assert set(lines[0]["cosines"]) == {"sst/sts"}


def test_a_resumed_run_with_triplets_equals_an_uninterrupted_one(
    tiny_encoder: Path, nli: Path, write_recipe: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(values(tiny_encoder, nli, sampler="mixed"))
    whole = palbert.train(recipe, out=tmp_path / "whole")
    step = Trainer.step

    def stop(self: Trainer, *arguments: Any) -> Any:
        self.stopping = self.position.step == 6
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "step", stop)
        palbert.train(recipe, out=tmp_path / "run")
    run = palbert.train(recipe, out=tmp_path / "run", resume=True)
    for name in ("model", "optimizer"):
        ends = [load_file(each / "checkpoints" / "last" / f"{name}.safetensors") for each in (whole, run)]
        assert ends[0].keys() == ends[1].keys()
        assert all(torch.equal(value, ends[1][key]) for key, value in ends[0].items()), name


def test_the_data_check_shows_triplets_without_labels(tiny_encoder: Path, nli: Path) -> None:
    found = {(item.name, item.split): item for item in check_data(make_recipe(values(tiny_encoder, nli)))}
    triplets = found["sts+nli", "train"]
    assert (triplets.rows, triplets.dropped, triplets.truncated) == (9, 8, 1)
    assert label_shares(triplets) == "none" and len(triplets.lengths) == 3 * 9
    assert triplets.examples == ["2 premises left out: no entailment, or no contradiction."]
    assert len(found["sts", "dev"].labels)


def test_a_resolved_recipe_reads_back_unchanged(tiny_encoder: Path, nli: Path, tmp_path: Path) -> None:
    recipe = make_recipe(values(tiny_encoder, nli))
    (tmp_path / "again.toml").write_text(dump_recipe(recipe), "utf-8")
    assert load_recipe(tmp_path / "again.toml") == recipe
    assert load_recipe(tmp_path / "again.toml").sets["sts+nli"].triplets


def test_the_catalog_settings_of_snli_also_work_for_triplets(tiny_encoder: Path, nli: Path) -> None:
    given = values(tiny_encoder, nli)
    given["tasks"] = {"sts": {"extra": {"snli": {"train": str(nli), "form": "triplets"}}}}
    recipe = make_recipe(given)
    assert recipe.factors == {"sts+snli": 0.1}
    assert check_data(recipe)[1].rows == 9


def test_teachers_of_the_task_are_not_asked_about_its_triplets(
    tiny_encoder: Path, trained: Path, nli: Path, write_recipe: Write, tmp_path: Path
) -> None:
    given = values(tiny_encoder, nli, sampler="mixed", epochs=1)
    given["tasks"]["sts"]["teachers"] = [str(trained)]
    given["objectives"] += ["distillation"]
    run = palbert.train(write_recipe(given), out=tmp_path / "run")
    lines = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]
    assert all(set(line["losses"]) == {"sst", "sts", "sts+nli"} for line in lines)
