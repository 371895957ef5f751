"""Supervised losses: against scikit-learn, and cut into pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from sklearn.metrics import log_loss, mean_squared_error

from palbert.build import build_model, make_objectives
from palbert.data.collate import Portion, collate
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
from palbert.objectives.supervised import Supervised, binary_cross_entropy, cross_entropy
from palbert.recipe.load import make_recipe
from palbert.registry import LOSSES
from palbert.tasks.catalog import CATALOG
from palbert.tasks.spec import Task

ROWS = 13
TASKS: dict[str, dict[str, Any]] = {
    "sst": CATALOG["sst"],
    "quora": {**CATALOG["quora"], "pair_input": "siamese", "head": "concat"},
    "sts": {**CATALOG["sts"], "pooling": "mean"},
}
LABELS = {
    "sst": np.arange(ROWS) % 5,
    "quora": np.arange(ROWS) % 2,
    "sts": np.linspace(0, 5, ROWS, dtype=np.float32),
}


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def loss(name: str, outputs: np.ndarray, labels: np.ndarray) -> float:
    return float(LOSSES[name](torch.from_numpy(outputs), torch.from_numpy(labels)))


def test_cross_entropy_equals_scikit_learns_log_loss(generator: np.random.Generator) -> None:
    outputs, labels = generator.normal(size=(40, 5)) * 3, generator.integers(0, 5, 40)
    expected = log_loss(labels, softmax(outputs, axis=1), labels=range(5))
    assert loss("cross-entropy", outputs, labels) == pytest.approx(expected, rel=1e-9)


def test_binary_cross_entropy_equals_scikit_learns_log_loss(generator: np.random.Generator) -> None:
    outputs, labels = generator.normal(size=(40, 1)) * 3, generator.integers(0, 2, 40)
    expected = log_loss(labels, expit(outputs[:, 0]), labels=[0, 1])
    assert loss("binary-cross-entropy", outputs, labels) == pytest.approx(expected, rel=1e-6)


def test_mse_equals_scikit_learns(generator: np.random.Generator) -> None:
    outputs, labels = generator.normal(size=(40, 1)), generator.uniform(0, 5, 40).astype(np.float32)
    expected = mean_squared_error(labels, outputs[:, 0])
    assert loss("mse", outputs, labels) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["cross-entropy", "binary-cross-entropy"])
def test_a_confident_mistake_has_a_finite_loss(name: str) -> None:
    outputs = np.full((2, 5 if name == "cross-entropy" else 1), -300.0)
    outputs[:, 0] = 300.0
    assert loss(name, outputs, np.array([1, 0])) > 100


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_equals_torchs(generator: np.random.Generator, smoothing: float) -> None:
    outputs, labels = torch.from_numpy(generator.normal(size=(40, 5))), torch.from_numpy(generator.integers(0, 5, 40))
    expected = torch.nn.functional.cross_entropy(outputs, labels, label_smoothing=smoothing)
    torch.testing.assert_close(cross_entropy(outputs, labels, label_smoothing=smoothing), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_binary_label_smoothing_equals_torchs_over_two_classes(
    generator: np.random.Generator, smoothing: float
) -> None:
    outputs, labels = torch.from_numpy(generator.normal(size=(40, 1))), torch.from_numpy(generator.integers(0, 2, 40))
    logits = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    expected = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)
    found = binary_cross_entropy(outputs, labels, label_smoothing=smoothing)
    torch.testing.assert_close(found, expected, check_dtype=False)


def test_label_smoothing_reaches_the_loss_and_is_refused_for_numbers() -> None:
    tasks = {"sst": {"label_smoothing": 0.2}, "quora": {"label_smoothing": 0.1}, "sts": {}}
    losses = make_objectives(make_recipe({"data": "samples", "tasks": tasks})).supervised.losses
    outputs, labels = torch.tensor([[1.0, -2.0, 0.5, 0.0, 3.0]]), torch.tensor([1])
    assert losses["sst"](outputs, labels) == cross_entropy(outputs, labels, label_smoothing=0.2)
    answer = binary_cross_entropy(outputs[:, :1], labels, label_smoothing=0.1)
    assert losses["quora"](outputs[:, :1], labels) == answer
    with pytest.raises(RecipeError, match=r"tasks\.sts: label_smoothing is for the losses cross-entropy and binary"):
        make_recipe({"data": "samples", "tasks": {"sts": {"label_smoothing": 0.1}}})


def model_and_tasks(folder: Path) -> tuple[MultiTaskModel, dict[str, Task]]:
    tasks = {name: Task.model_validate({"name": name, **values, "dropout": 0.0}) for name, values in TASKS.items()}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_model(tasks, load_encoder(folder, dropout=0.0, attention_dropout=0.0)), tasks


def gradients_in_pieces(folder: Path, tokenizer: TextTokenizer, pieces: int) -> tuple[dict[str, float], torch.Tensor]:
    """Return each task's loss and the gradient of a step that is cut into pieces."""
    model, tasks = model_and_tasks(folder)
    objective = Supervised({name: LOSSES[task.loss] for name, task in tasks.items()})
    columns = (
        tokenizer([" ".join(["the"] * (row % 4 + 1)) for row in range(ROWS)]),
        tokenizer([f"phone number {row}" for row in range(ROWS)]),
    )
    totals = dict.fromkeys(tasks, 0.0)
    for rows in np.array_split(np.arange(ROWS), pieces):
        portions = [
            Portion(
                name,
                name,
                columns[: len(task.text)],
                rows,
                32,
                siamese=task.siamese,
                labels=LABELS[name],
                share=len(rows) / ROWS,
            )
            for name, task in tasks.items()
        ]
        losses = objective(model, collate(portions, tokenizer.template))
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        for name, value in losses.items():
            totals[name] += value.item()
    return totals, torch.cat(
        [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    )


@pytest.mark.parametrize("pieces", [2, 3, 5, 13])
def test_pieces_give_the_same_losses_and_gradient_as_one_batch(
    tiny_encoder: Path, tokenizer: TextTokenizer, pieces: int
) -> None:
    losses, gradient = gradients_in_pieces(tiny_encoder, tokenizer, pieces)
    whole_losses, whole_gradient = gradients_in_pieces(tiny_encoder, tokenizer, 1)
    assert losses == pytest.approx(whole_losses, rel=1e-5)
    assert whole_gradient.norm() > 0.1
    torch.testing.assert_close(gradient, whole_gradient, rtol=1e-4, atol=1e-6)


def test_a_batch_without_labels_is_no_training_batch(tiny_encoder: Path, tokenizer: TextTokenizer) -> None:
    model, tasks = model_and_tasks(tiny_encoder)
    objective = Supervised({name: LOSSES[task.loss] for name, task in tasks.items()})
    batch = collate([Portion("sst", "sst", (tokenizer(["a"]),), np.array([0]), 8)], tokenizer.template)
    with pytest.raises(AssertionError, match="has labels"):
        objective(model, batch)
