"""Logit adjustment: Bayes' rule on known shares, and no change where the shares agree."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logit

import palbert
from palbert.build import load_training_sets, make_objectives
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, RecipeError
from palbert.objectives.logit_adjustment import LogitAdjusted, adjusted
from palbert.objectives.losses import binary_cross_entropy, cross_entropy
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.targets.binary import Binary
from palbert.targets.classes import Classes

Write = Callable[..., Path]

LIKELIHOOD = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.3, 0.6, 0.1]])
"""p(x | y): three texts, one row a class."""


def drawn(classes: int, per_class: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return texts and labels whose shares are exactly the likelihoods."""
    counts = [np.round(LIKELIHOOD[y] * per_class[y]).astype(int) for y in range(classes)]
    texts = np.concatenate([np.repeat(np.arange(3), count) for count in counts])
    return texts, np.repeat(np.arange(classes), per_class)


BINARY = Binary(classes=("no", "yes"))


def classes(number: int) -> Classes:
    return Classes(classes=[str(index) for index in range(number)])


def bayes(prior: list[float]) -> np.ndarray:
    """Return p(y | x) ∝ p(x | y) π(y), one row per text."""
    joint = LIKELIHOOD[: len(prior)].T * np.array(prior)
    return joint / joint.sum(axis=1, keepdims=True)


def fitted(loss: Any, texts: np.ndarray, labels: np.ndarray, outputs: int) -> torch.Tensor:
    """Return the logits of each text that minimise the loss."""
    table = torch.zeros(3, outputs, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([table], max_iter=300, tolerance_grad=1e-10, line_search_fn="strong_wolfe")
    rows, answers = torch.from_numpy(texts), torch.from_numpy(labels)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value: torch.Tensor = loss(table[rows], answers)
        value.backward()
        return value

    optimizer.step(closure)
    return table.detach()


@pytest.mark.parametrize("prior", [[0.625, 0.375], [0.9, 0.1], [0.31, 0.69]])
def test_binary_probabilities_follow_the_prior(prior: list[float]) -> None:
    texts, labels = drawn(2, [310, 690])
    loss = adjusted(binary_cross_entropy, labels, prior, target=BINARY, name="quora")
    found = fitted(loss, texts, labels, 1).sigmoid().squeeze(1).numpy()
    np.testing.assert_allclose(found, bayes(prior)[:, 1], atol=1e-4)


@pytest.mark.parametrize("prior", [[1 / 3, 1 / 3, 1 / 3], [0.2, 0.1, 0.7]])
def test_class_probabilities_follow_the_prior(prior: list[float]) -> None:
    texts, labels = drawn(3, [600, 100, 300])
    loss = adjusted(cross_entropy, labels, prior, target=classes(3), name="sst")
    found = fitted(loss, texts, labels, 3).softmax(1).numpy()
    np.testing.assert_allclose(found, bayes(prior), atol=1e-4)


def test_a_uniform_prior_gives_the_loss_of_the_paper() -> None:
    labels = np.repeat(np.arange(3), [600, 100, 300])
    outputs, answers = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3
    found = adjusted(cross_entropy, labels, [1 / 3] * 3, target=classes(3), name="sst")(outputs, answers)
    expected = torch.nn.functional.cross_entropy(outputs + torch.tensor([0.6, 0.1, 0.3]).log(), answers)
    torch.testing.assert_close(found, expected)


def test_a_binary_prior_equals_that_of_two_classes() -> None:
    labels, prior = np.repeat([0, 1], [30, 70]), (0.6, 0.4)
    outputs, answers = torch.randn(20, 1, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    both = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    found = adjusted(binary_cross_entropy, labels, prior, target=BINARY, name="quora")(outputs, answers)
    expected = adjusted(cross_entropy, labels, prior, target=classes(2), name="quora")(both, answers)
    torch.testing.assert_close(found, expected)


def test_the_prior_of_the_training_rows_leaves_the_loss_unchanged() -> None:
    labels = np.repeat([0, 1, 2], [3, 4, 3])
    assert adjusted(cross_entropy, labels, (0.3, 0.4, 0.3), target=classes(3), name="sst") is cross_entropy
    assert (
        adjusted(binary_cross_entropy, labels[:7] % 2, (3 / 7, 4 / 7), target=BINARY, name="q") is binary_cross_entropy
    )


def test_rows_of_every_class_are_needed() -> None:
    with pytest.raises(DataError, match=r"sst\+cfimdb train: a prior needs rows of every class.* of class 1, 2"):
        adjusted(cross_entropy, np.array([0, 3, 3]), (0.25,) * 4, target=classes(4), name="sst+cfimdb")


# In a recipe


@pytest.mark.parametrize(
    ("task", "prior", "message"),
    [
        ("quora", 1.2, "prior needs shares between 0 and 1, found -0.2, 1.2"),
        ("quora", "dev", r"tasks\.quora\.prior: prior takes numbers: .*; found 'dev'"),
        ("quora", {"yes": 0.3, "no": 0.7}, r"a share for each of different, duplicate; found {'yes': 0.3, 'no': 0.7}"),
        ("sst", 0.5, "prior takes numbers: .*; found 0.5"),
        ("sts", 0.5, r"tasks\.sts\.prior: prior is for targets with classes; .* 'number'"),
        ("quora", [0.2, 0.3, 0.5], "prior needs one share for each of 2 classes, found 3"),
        ("sst", [0.1] * 5, "prior needs shares that add up to 1, found 0.5"),
        ("sts", [0.5, 0.5], "prior is for targets with classes"),
    ],
)
def test_an_invalid_prior_is_refused(task: str, prior: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make_recipe({"data": "samples", "tasks": {task: {"prior": prior}}})


def test_a_table_of_shares_follows_the_order_of_the_classes_and_reads_back_unchanged(tmp_path: Path) -> None:
    tasks = {"quora": {"prior": {"duplicate": 0.4, "different": 0.6}}}
    recipe = make_recipe({"data": "samples", "tasks": tasks})
    assert recipe.tasks["quora"].prior == (0.6, 0.4)
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe), "utf-8")
    assert load_recipe(tmp_path / "recipe.toml") == recipe


def test_without_training_rows_the_loss_is_not_adjusted() -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"quora": {"prior": 0.1}}})
    assert not isinstance(make_objectives(recipe).supervised.losses["quora"], LogitAdjusted)


def test_every_set_of_a_task_is_corrected_by_its_own_shares(tokenizer: TextTokenizer) -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"quora": {"prior": 0.3, "extra": ["snli"]}}})
    train = load_training_sets(recipe, tokenizer)
    losses = make_objectives(recipe, train).supervised.losses
    shares = {name: each.rows.labels.mean() for name, each in train.items() if each.rows.labels is not None}
    assert shares["quora"] != shares["quora+snli"]
    for name, share in shares.items():
        loss = losses[name]
        assert isinstance(loss, LogitAdjusted)
        assert loss.shift.tolist() == pytest.approx([logit(share) - logit(0.3)], abs=1e-6)


@pytest.fixture
def skewed(tiny_encoder: Path, tmp_path: Path) -> dict[str, Any]:
    """Write rows of one word each, 69 % of them yes, and return a recipe for them."""
    texts, labels = drawn(2, [310, 690])
    words = ("film", "movie", "story")
    rows = "".join(f"{words[text]}\t{label}\n" for text, label in zip(texts, labels, strict=True))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabel\n" + rows, "utf-8")
    files = {split: str(tmp_path / f"{split}.tsv") for split in ("train", "dev")}
    return {
        "encoder": {"name": str(tiny_encoder), "dropout": 0.0, "attention_dropout": 0.0},
        "tasks": {"toy": {"kind": "single", "target": "binary", "text": "text", "dropout": 0.0, **files}},
        "training": {"epochs": 1, "steps_per_epoch": 60, "batch_size": 250},
        "optimizer": {"learning_rate": 3e-3, "schedule": {"name": "cosine"}},
        "run": {"device": "cpu", "tensorboard": False},
    }


@pytest.mark.usefixtures("no_plots", "on_cpu")
def test_a_trained_model_answers_according_to_the_prior(
    skewed: dict[str, Any], write_recipe: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "palbert")
    skewed["tasks"]["toy"]["prior"] = 0.375
    run = palbert.train(write_recipe(skewed), out=tmp_path / "run")
    assert "toy train: class shares 31.0% / 69.0%, trained to answer for 62.5% / 37.5%" in caplog.text
    answers = palbert.load(run).predict("toy", ["film", "movie", "story"])
    found = [(answer.probabilities or {})["yes"] for answer in answers]
    np.testing.assert_allclose(found, bayes([0.625, 0.375])[:, 1], atol=0.05)


@pytest.mark.usefixtures("no_plots", "on_cpu")
def test_a_run_with_the_prior_of_its_rows_equals_a_run_without_a_prior(
    skewed: dict[str, Any], write_recipe: Write, tmp_path: Path
) -> None:
    skewed["training"]["steps_per_epoch"] = 4
    plain = palbert.train(write_recipe(skewed), out=tmp_path / "plain")
    skewed["tasks"]["toy"]["prior"] = 0.69
    same = palbert.train(write_recipe(skewed), out=tmp_path / "same")
    weights = [(run / "checkpoints" / "last" / "model.safetensors").read_bytes() for run in (plain, same)]
    assert weights[0] == weights[1]
    described = json.loads((same / "checkpoints" / "last" / "palbert.json").read_text("utf-8"))
    assert described["tasks"]["toy"]["prior"] == pytest.approx([0.31, 0.69])
