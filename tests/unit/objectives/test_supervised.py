"""Supervised losses: compared with scikit-learn, and in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from palbert.build import build_model, make_objectives
from palbert.data.collate import Portion, collate
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
from palbert.objectives.losses import binary_cross_entropy, cross_entropy, huber
from palbert.objectives.objectives import Objectives
from palbert.objectives.supervised import Supervised
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
LABELS: dict[str, Any] = {
    "sst": np.arange(ROWS) % 5,
    "quora": np.arange(ROWS) % 2,
    "sts": np.linspace(0, 5, ROWS, dtype=np.float32),
}


def test_label_smoothing_reaches_the_loss_and_is_refused_for_numbers() -> None:
    tasks = {"sst": {"label_smoothing": 0.2}, "quora": {"label_smoothing": 0.1}, "sts": {}}
    losses = make_objectives(make_recipe({"data": "samples", "tasks": tasks})).supervised.losses
    outputs, labels = torch.tensor([[1.0, -2.0, 0.5, 0.0, 3.0]]), torch.tensor([1])
    assert losses["sst"](outputs, labels) == cross_entropy(outputs, labels, label_smoothing=0.2)
    answer = binary_cross_entropy(outputs[:, :1], labels, label_smoothing=0.1)
    assert losses["quora"](outputs[:, :1], labels) == answer
    with pytest.raises(RecipeError, match=r"tasks\.sts: label_smoothing does not fit the loss 'mse'"):
        make_recipe({"data": "samples", "tasks": {"sts": {"label_smoothing": 0.1}}})


def test_the_options_of_a_loss_reach_it_and_unknown_ones_are_refused() -> None:
    outputs, labels = torch.tensor([[1.0], [4.0]]), torch.tensor([1.5, 1.0])
    tasks: dict[str, Any] = {"sts": {"loss": {"name": "huber", "delta": 0.25}}}
    losses = make_objectives(make_recipe({"data": "samples", "tasks": tasks})).supervised.losses
    assert losses["sts"](outputs, labels) == huber(outputs, labels, delta=0.25)
    tasks["sts"]["loss"] = {"name": "huber", "beta": 1}
    with pytest.raises(RecipeError, match=r"tasks\.sts\.loss: .*'beta'"):
        make_objectives(make_recipe({"data": "samples", "tasks": tasks}))


def test_a_loss_for_another_target_is_refused_with_the_suitable_ones() -> None:
    with pytest.raises(RecipeError, match="loss 'mse' does not fit target 'classes', which takes 'cross-entropy', 'f"):
        make_recipe({"data": "samples", "tasks": {"sst": {"loss": "mse"}}})


def model_and_tasks(folder: Path) -> tuple[MultiTaskModel, dict[str, Task]]:
    tasks = {name: Task.model_validate({"name": name, **values, "dropout": 0.0}) for name, values in TASKS.items()}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_model(tasks, load_encoder(folder, dropout=0.0, attention_dropout=0.0)), tasks


def gradients_in_pieces(folder: Path, tokenizer: TextTokenizer, pieces: int) -> tuple[dict[str, float], torch.Tensor]:
    """Return each task's loss and the gradient of a step that is cut into pieces."""
    model, tasks = model_and_tasks(folder)
    objective = Objectives(Supervised({name: LOSSES[task.loss.name] for name, task in tasks.items()}))
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


def test_a_batch_without_labels_is_not_a_training_batch(tiny_encoder: Path, tokenizer: TextTokenizer) -> None:
    model, tasks = model_and_tasks(tiny_encoder)
    objective = Objectives(Supervised({name: LOSSES[task.loss.name] for name, task in tasks.items()}))
    batch = collate([Portion("sst", "sst", (tokenizer(["a"]),), np.array([0]), 8)], tokenizer.template)
    with pytest.raises(AssertionError, match="has labels"):
        objective(model, batch)
