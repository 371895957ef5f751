"""Evaluator: batches by length, outputs in the order of the rows, scores and constant baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from palbert.build import Machine, build_inference, build_model
from palbert.data.dataset import Dataset, load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.inference.evaluator import Inference, by_length, constant_baseline, evaluate_tasks, score
from palbert.metrics import find_metric
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.targets import Decoded
from palbert.tasks.sets import files_of

TOPICS: dict[str, Any] = {
    "kind": "single", "target": "multilabel", "classes": ["delivery", "billing", "account", "quality", "praise"],
    "text": "message", "label": "topics", "train": "topics-train.tsv", "dev": "topics-dev.tsv",
}  # fmt: skip


@pytest.fixture
def recipe() -> Recipe:
    return make_recipe({"data": "samples", "tasks": {"sst": {}, "quora": {}, "sts": {}, "topics": TOPICS}})


@pytest.fixture
def inference(recipe: Recipe, tiny_encoder: Path, tokenizer: TextTokenizer) -> Inference:
    model = build_model(recipe.tasks, load_encoder(tiny_encoder))
    return build_inference(model, tokenizer=tokenizer, machine=Machine.of("cpu", "fp32"))


@pytest.fixture
def dev(recipe: Recipe, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    return {name: load_dataset(files_of(task, "dev"), tokenizer) for name, task in recipe.tasks.items()}


def test_batches_hold_every_row_once_longest_first_within_the_budget() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 200)
    batches = by_length(lengths, 64)
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    assert all(lengths[batch].sum() <= 64 for batch in batches)
    assert (np.diff(lengths[np.concatenate(batches)]) <= 0).all()


def test_a_row_that_exceeds_the_budget_gets_its_own_batch() -> None:
    assert [batch.tolist() for batch in by_length(np.array([5, 100, 6]), 10)] == [[1], [2], [0]]


def test_outputs_keep_the_order_of_the_rows(inference: Inference, recipe: Recipe, dev: dict[str, Dataset]) -> None:
    task, tokens = recipe.tasks["quora"], dev["quora"].tokens
    together = inference.outputs(task, tokens)
    for row in (0, 7, 50):
        alone = inference.outputs(task, tuple(column.take(np.array([row])) for column in tokens))
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-4)


def test_a_head_with_outputs_of_another_shape_is_refused(
    inference: Inference, recipe: Recipe, dev: dict[str, Dataset]
) -> None:
    inference.model.heads["sts"] = torch.nn.LazyLinear(3)
    with pytest.raises(
        RecipeError, match=r"tasks.sts: for \d+ rows, .* outputs of shape \(\d+, 3\); expected \(\d+, 1\)"
    ):
        inference.outputs(recipe.tasks["sts"], dev["sts"].tokens)


def test_a_model_in_training_is_evaluated_without_dropout_and_stays_in_training(
    inference: Inference, recipe: Recipe, dev: dict[str, Dataset]
) -> None:
    inference.model.train()
    first, second = (inference.outputs(recipe.tasks["sst"], dev["sst"].tokens) for _ in range(2))
    assert torch.equal(first, second) and inference.model.training


def test_every_task_is_scored_by_its_metrics(inference: Inference, recipe: Recipe, dev: dict[str, Dataset]) -> None:
    results = evaluate_tasks(inference, recipe.tasks, dev)
    assert [result.task for result in results] == list(dev)
    for result in results:
        assert tuple(result.scores) == recipe.tasks[result.task].metrics
        for name, value in result.scores.items():
            metric = find_metric(name)
            assert value == metric(result.gold, metric.compared(result.predicted, result.probabilities))


def test_correct_predictions_have_the_best_scores(recipe: Recipe, dev: dict[str, Dataset]) -> None:
    for name, dataset in dev.items():
        gold = recipe.tasks[name].target.gold(np.asarray(dataset.labels))
        result = score(recipe.tasks[name], dataset, Decoded(gold, gold.astype(np.float64)))
        assert find_metric(result.metric).scaled(result.scores[result.metric]) == pytest.approx(1.0)
        assert not result.wrong.any()


def test_no_other_constant_is_better_than_the_baseline_on_its_own_rows(recipe: Recipe, dev: dict[str, Dataset]) -> None:
    labels = np.asarray(dev["sst"].labels)
    best = constant_baseline(recipe.tasks["sst"], dev["sst"], dev["sst"])
    assert best == max((labels == constant).mean() for constant in range(5))
    assert constant_baseline(recipe.tasks["sts"], dev["sts"], dev["sts"]) == 0.0  # a constant does not correlate
    assert 0 <= constant_baseline(recipe.tasks["topics"], dev["topics"], dev["topics"]) <= 1
