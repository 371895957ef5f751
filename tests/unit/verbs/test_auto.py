"""Automatic runs: completed before they start, never below their probe on dev, and resumable."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import palbert
from palbert.errors import PalbertError
from palbert.recipe.load import load_recipe, make_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.train import TrainingJob

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")


@pytest.fixture(scope="module")
def values(tiny_encoder: Path) -> dict[str, Any]:
    """Return a recipe that leaves training open, on a hundred rows per task."""
    return {
        "seed": 1,
        "data": "samples",
        "encoder": str(tiny_encoder),
        "tasks": {"sst": {}, "quora": {}, "sts": {}},
        "run": {"device": "cpu", "tensorboard": False},
    }


@pytest.fixture(scope="module")
def automatic(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train it, but only for a few steps."""
    training = {"auto": True, "epochs": 2, "steps_per_epoch": 3, "log_every": 1}
    folder = tmp_path_factory.mktemp("automatic") / "run"
    palbert.train(make_recipe({**values, "training": training}), out=folder)
    return folder


def evaluations(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [line for line in lines if line["kind"] == "evaluation"]


def test_the_model_before_training_answers_as_the_probe(automatic: Path) -> None:
    before, kept = evaluations(automatic)[0], json.loads((automatic / "baselines.json").read_text("utf-8"))
    for task, metric in (("sst", "accuracy"), ("quora", "accuracy")):
        assert before["tasks"][task][metric] == pytest.approx(kept["linear probe"][task], abs=0.01)
    head = load_recipe(automatic / "recipe.toml").tasks["sts"].head.name
    expected = kept["cosine" if head == "cosine" else "linear probe"]["sts"]
    assert before["tasks"]["sts"]["pearson"] == pytest.approx(expected, abs=0.01)


def test_the_report_is_never_below_the_start(automatic: Path) -> None:
    report = json.loads((automatic / "report.json").read_text("utf-8"))
    assert report["overall"] >= evaluations(automatic)[0]["overall"] - 1e-6


def test_the_run_folder_has_the_chosen_settings(automatic: Path) -> None:
    recipe = load_recipe(automatic / "recipe.toml")
    assert not recipe.training.auto and recipe.training.epochs == 2
    assert recipe.optimizer.schedule.name == "stlr" and recipe.optimizer.head_learning_rate == 1e-3
    assert all(task.head_start == "probe" and task.pooling.name == "mean" for task in recipe.tasks.values())


def test_a_run_from_the_chosen_settings_is_the_same_run(automatic: Path, tmp_path: Path) -> None:
    palbert.train(automatic / "recipe.toml", out=tmp_path / "again")
    assert evaluations(tmp_path / "again") == evaluations(automatic)


def test_preparing_twice_chooses_the_same(values: dict[str, Any], tmp_path: Path) -> None:
    first, second = (TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare() for _ in range(2))
    assert first.recipe == second.recipe and not first.recipe.training.auto


def test_the_choice_is_logged(values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()
    assert "training: " in caplog.text and 'sst: pooling = "mean", head_start = "probe"' in caplog.text


def test_adapters_keep_the_shape_of_their_tasks(values: dict[str, Any], tmp_path: Path) -> None:
    adapters = {"name": "low-rank", "size": 4}
    job = TrainingJob(make_recipe({**values, "adapters": adapters}), RunFolder(tmp_path / "run")).prepare()
    assert not job.recipe.training.auto
    assert all(task.head_start == "random" and task.pooling.name == "cls" for task in job.recipe.tasks.values())


def test_a_pair_whose_label_is_its_cosine_is_a_similarity(values: dict[str, Any], tmp_path: Path) -> None:
    job = TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()
    frozen = job.frozen.tasks["sts"]
    labels = frozen.rows.labels
    assert labels is not None
    labels = np.array(frozen.train[-1][:, 0] * 5, dtype=np.float32)
    object.__setattr__(frozen.rows, "labels", np.clip(labels, 0, None))
    for name in ("probe", "similarity"):
        vars(frozen).pop(name, None)
    assert frozen.similarity == pytest.approx(float(labels.max()))


def test_a_probe_needs_mean_vectors(values: dict[str, Any], tmp_path: Path) -> None:
    tasks = {"sst": {"head_start": "probe", "pooling": "cls"}}
    with pytest.raises(PalbertError, match="head_start"):
        palbert.train(make_recipe({**values, "tasks": tasks}), out=tmp_path / "run")


def test_the_start_counts_as_best_in_the_table_and_is_no_baseline_of_its_own(
    automatic: Path, values: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = {"auto": True, "epochs": 1, "steps_per_epoch": 1}
    palbert.train(make_recipe({**values, "training": training}), out=tmp_path / "run")
    _, before, *_ = capsys.readouterr().err.splitlines()
    assert before.split()[0] == "0" and "best" in before.split()
    assert "untrained heads" not in json.loads((automatic / "report.json").read_text("utf-8"))["baselines"]


def test_a_number_that_starts_at_the_mean_answers_near_it(values: dict[str, Any], tmp_path: Path) -> None:
    own = {**values, "tasks": {"sts": {"head_start": "mean"}}, "training": {"epochs": 1, "steps_per_epoch": 1}}
    run = palbert.train({**own, "optimizer": {"learning_rate": 1e-9}}, out=tmp_path / "run")
    answers = [each.answer for each in run.predict("sts", [("a man sings", "someone sings")] * 3)]
    assert all(abs(answer - 2.5) < 1.5 for answer in answers)


def test_kept_heads_are_not_replaced_by_a_probe(values: dict[str, Any], tmp_path: Path) -> None:
    first = {**values, "tasks": {"sst": {}}, "training": {"auto": True, "epochs": 1, "steps_per_epoch": 2}}
    run = palbert.train(first, out=tmp_path / "first")
    shape = {"pooling": "mean"}
    again = {**first, "tasks": {"sst": shape}, "encoder": {"name": str(run), "keep": ["heads"]}}
    job = TrainingJob(make_recipe(again), RunFolder(tmp_path / "second"), resume=False).prepare()
    with job.folder.locked():
        job.open_folder()
    expected = run.predictor.inference.model.heads["sst"].output.weight
    torch.testing.assert_close(job.model.heads["sst"].output.weight, expected)
