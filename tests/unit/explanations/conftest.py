"""Fixtures of explanations: tiny models with random heads and adapters, written as checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import palbert
from palbert.build import Machine, build_model, open_checkpoint
from palbert.data.tokenizer import TextTokenizer
from palbert.explanations.explained import Explained
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe
from palbert.tasks.spec import Task
from palbert.training.checkpoint import TrainerState, save_checkpoint

Make = Callable[..., palbert.Predictor]

FILES = {"train": "sst-train.tsv", "dev": "sst-dev.tsv"}
SINGLE = {"kind": "single", "text": "sentence", "label": "sentiment", **FILES}
TASKS: dict[str, dict[str, Any]] = {
    "sst": {"pooling": "mean", "head": "mlp"},
    "tone": {**SINGLE, "target": "multilabel", "classes": ["0", "1", "2", "3", "4"], "pooling": "attention"},
    "grade": {**SINGLE, "target": "number", "head": "mlp", "pooling": "pooler"},
    "quora": {"pooling": "cls"},
    "sts": {"pair_input": "siamese", "pooling": "mean", "head": "concat-difference"},
}
"""Classes, multilabel and a number for single texts, a joint pair with yes or no, and a siamese pair with a number."""


@pytest.fixture
def make(tiny_encoder: Path, tokenizer: TextTokenizer, tmp_path: Path) -> Make:
    """Return a function that writes a checkpoint of a random model of five tasks, and opens it."""

    def made(*, adapters: Any = None, relation: Any = None, **changes: dict[str, Any]) -> palbert.Predictor:
        tasks = {name: {**task, **changes.get(name, {})} for name, task in TASKS.items()}
        extra = {"adapters": adapters, "relation": relation}
        recipe = make_recipe({"data": "samples", "tasks": tasks, **{key: it for key, it in extra.items() if it}})
        torch.manual_seed(0)
        encoder = load_encoder(tiny_encoder)
        model = build_model(recipe.tasks, encoder, adapters=recipe.adapters, relation=recipe.relation)
        for parameter in [*model.adapters.parameters(), *model.poolings.parameters()]:  # new ones add nothing
            torch.nn.init.normal_(parameter, std=0.1)
        description = {
            "encoder": asdict(encoder.config),
            "tasks": {name: task.model_dump(mode="json") for name, task in recipe.tasks.items()},
            "adapters": recipe.adapters.model_dump(mode="json") if recipe.adapters else None,
            "relation": recipe.relation.model_dump(mode="json") if recipe.relation else None,
        }
        folder = tmp_path / f"checkpoint-{len(list(tmp_path.iterdir()))}"
        save_checkpoint(folder, model, tokenizer, description=description, state=TrainerState({}, {}, {}, {}))
        machine = Machine(torch.device("cpu"), "fp32")
        return palbert.Predictor(open_checkpoint(folder, machine), machine)

    return made


@pytest.fixture
def model(make: Make) -> palbert.Predictor:
    """Return a tiny model without adapters."""
    return make()


@pytest.fixture
def smooth(model: palbert.Predictor) -> Callable[[str], Explained]:
    """Return a function that gives a task's first explained number, with gradients."""

    def of(name: str) -> Explained:
        return model.explainer._differentiable(model.explainer._number(model.task(name), 0))

    return of


def task(model: palbert.Predictor, name: str) -> Task:
    """Return a task of a model."""
    return model.task(name)
