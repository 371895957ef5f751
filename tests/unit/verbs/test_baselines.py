"""Baselines of a report: every task has them, and they are what they are called."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import palbert
from palbert.build import load_split
from palbert.data.tokenizer import TextTokenizer
from palbert.inference.vectors import MeanVectors
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import load_recipe, make_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.targets.number import Number
from palbert.targets.probe import STRENGTHS
from palbert.verbs.train import TrainingJob

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")


def test_untrained_heads_score_as_before_the_first_step(run_copy: Path) -> None:
    baselines = json.loads((run_copy / "report.json").read_text("utf-8"))["baselines"]
    lines = [json.loads(line) for line in (run_copy / "metrics.jsonl").read_text("utf-8").splitlines()]
    [before] = [line for line in lines if line["kind"] == "evaluation" and line["epoch"] == 0]
    assert baselines["untrained heads"] == {
        task: next(iter(scores.values())) for task, scores in before["tasks"].items()
    }


def test_the_probe_is_a_logistic_regression_on_mean_vectors(trained: Path, tiny_encoder: Path) -> None:
    recipe = load_recipe(trained / "recipe.toml")
    tokenizer = TextTokenizer.from_folder(tiny_encoder)
    encoder = load_encoder(tiny_encoder)
    vectors = MeanVectors(encoder, template=tokenizer.template, device=torch.device("cpu"), arithmetic=nullcontext)
    rows = [load_split(recipe, split, tokenizer)["sst"] for split in ("train", "dev")]
    [train], [dev] = (vectors(each.tokens, max_length=128, title="sst") for each in rows)
    scale = np.sqrt(np.square(train - train.mean(0)).sum(1).mean())
    scores = [
        LogisticRegression(C=strength, max_iter=2000)
        .fit((train - train.mean(0)) / scale, rows[0].labels)
        .score((dev - train.mean(0)) / scale, rows[1].labels)
        for strength in STRENGTHS
    ]
    kept = json.loads((trained / "baselines.json").read_text("utf-8"))
    assert min(abs(score - kept["linear probe"]["sst"]) for score in scores) < 0.02


def test_pairs_with_a_number_have_the_plain_cosine_as_a_baseline(trained: Path) -> None:
    kept = json.loads((trained / "baselines.json").read_text("utf-8"))
    assert list(kept["cosine"]) == ["sts"] and set(kept["linear probe"]) == {"sst", "quora", "sts"}
    assert json.loads((trained / "report.json").read_text("utf-8"))["baselines"].items() >= kept.items()


def test_a_run_without_kept_baselines_is_evaluated_all_the_same(run_copy: Path) -> None:
    (run_copy / "baselines.json").unlink()
    assert list(palbert.evaluate(run_copy).baselines) == ["majority / mean", "untrained heads"]


def test_only_dev_has_the_baselines_that_training_kept(run_copy: Path) -> None:
    assert list(palbert.evaluate(run_copy, split="train").baselines) == ["majority / mean"]


def test_measuring_draws_nothing_at_random(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    job = TrainingJob(make_recipe(tiny_recipe), RunFolder(tmp_path / "run")).prepare()
    before = torch.get_rng_state()
    job.frozen.scores()
    assert torch.equal(before, torch.get_rng_state())


def test_a_target_that_only_inherits_a_probe_has_none(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    class Own(Number):
        """A number with outputs of its own, say."""

    job = TrainingJob(make_recipe(tiny_recipe), RunFolder(tmp_path / "run")).prepare()
    frozen = job.frozen.tasks["sts"]
    task = frozen.task.model_copy(update={"target": Own(range=(0.0, 5.0))})
    assert replace(frozen, task=task).scores(job.dev["sts"]) == {}
    assert set(frozen.scores(job.dev["sts"])) == {"linear probe", "cosine"}
