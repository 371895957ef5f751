"""Fixtures of the tests of objectives: a small model with tasks of every kind, and batches for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from palbert.batch import PackedBatch
from palbert.build import build_model
from palbert.data.collate import Portion, collate
from palbert.data.tokenizer import TextTokenizer
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
from palbert.objectives import Goal, Pass
from palbert.objectives.supervised import Supervised
from palbert.registry import LOSSES
from palbert.tasks.catalog import CATALOG
from palbert.tasks.sets import sets_of
from palbert.tasks.spec import Task

ROWS = 6
SIAMESE = {"pair_input": "siamese", "head": "concat-difference"}
TASKS: dict[str, dict[str, Any]] = {
    "classes": CATALOG["sst"],
    "binary-joint": CATALOG["quora"],
    "binary-siamese": {**CATALOG["quora"], **SIAMESE, "pooling": "mean"},
    "number-joint": {**CATALOG["sts"], "pooling": "mean"},
    "number-siamese": {**CATALOG["sts"], **SIAMESE},
}
LABELS: dict[str, Any] = {
    "classes": np.arange(ROWS) % 5,
    "binary": np.arange(ROWS) % 2,
    "number": np.linspace(0, 5, ROWS, dtype=np.float32),
}
FIRST = [" ".join(["the", "phone", "is", "a"][: row % 4 + 1]) + f" number {row}" for row in range(ROWS)]
THIRD = [f"{row} people are in a" for row in range(ROWS)]
SECOND = [" ".join(["a", "man", "with"][: row % 3 + 1]) for row in range(ROWS)]


@dataclass
class Scene:
    """A model, its tasks, and batches for them."""

    model: MultiTaskModel
    tasks: dict[str, Task]
    tokenizer: TextTokenizer

    @property
    def goals(self) -> dict[str, Goal]:
        return {name: Goal.of(sets_of(task)[name], LOSSES[task.loss.name]) for name, task in self.tasks.items()}

    @property
    def supervised(self) -> Supervised:
        return Supervised({name: LOSSES[task.loss.name] for name, task in self.tasks.items()})

    def batch(self, rows: Sequence[int] = range(ROWS)) -> PackedBatch:
        """Collate some rows of every task."""
        columns = self.tokenizer(FIRST), self.tokenizer(SECOND)
        portions = [
            Portion(
                name,
                name,
                columns[: len(task.text)],
                np.array(rows),
                32,
                siamese=task.siamese,
                labels=LABELS[task.target.name],
                share=len(rows) / ROWS,
            )
            for name, task in self.tasks.items()
        ]
        return collate(portions, self.tokenizer.template)

    def with_triplets(self, task: str, rows: Sequence[int] = range(ROWS)) -> PackedBatch:
        """Collate some rows of a task, and triplets for it."""
        columns = self.tokenizer(FIRST), self.tokenizer(SECOND), self.tokenizer(THIRD)
        spec = self.tasks[task]
        chosen = np.array(rows)
        own = Portion(task, task, columns[: len(spec.text)], chosen, 32, spec.siamese, labels=LABELS[spec.target.name])
        share = len(rows) / ROWS
        contrast = Portion(f"{task}+nli", task, columns, chosen, 32, siamese=True, share=share, answered=False)
        return collate([own, contrast], self.tokenizer.template)

    def forward_pass(self, batch: PackedBatch) -> Pass:
        return Pass.of(self.model, batch, repeated=batch.parts)

    def gradient(self) -> torch.Tensor:
        """Return all `.grad` as one vector, with zeros where there is no gradient."""
        return torch.cat(
            [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in self.model.parameters()]
        )


@pytest.fixture
def scene(tiny_encoder: Path, tokenizer: TextTokenizer) -> Callable[..., Scene]:
    """Return a function that makes the same model each time, for all tasks or some, with dropout or without."""

    def make(*names: str, dropout: float = 0.0) -> Scene:
        tasks = {
            name: Task.model_validate({"name": name, **TASKS[name], "dropout": dropout}) for name in names or TASKS
        }
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = build_model(tasks, load_encoder(tiny_encoder, dropout=dropout, attention_dropout=dropout))
        for parameter in model.heads.parameters():  # larger outputs, so that distances exceed rounding errors
            parameter.data.mul_(4)
        return Scene(model.train(), tasks, tokenizer)

    return make


@pytest.fixture
def nli(tmp_path: Path) -> dict[str, Any]:
    """Return an extra set of twelve triplets, made from premises with an entailment and a contradiction each."""
    words = ["the", "is", "to", "and", "it", "with", "a", "of", "in", "that", "this", "for"]
    lines = ["premise\thypothesis\tlabel"]
    for number in range(12):
        word, other = words[number % 6], words[6 + number // 2]
        premise = f"{word} {other} {other}"  # at first more similar to its contradiction
        lines += [f"{premise}\t{word} {word}\tentailment", f"{premise}\t{other} {other}\tcontradiction"]
    path = tmp_path / "nli.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return {"nli": {"train": str(path), "form": "triplets"}}
