"""Evaluator: run a model over whole data sets, longest rows first, and score its predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.data.collate import Portion, sequence_lengths
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import Template
from palbert.errors import RecipeError
from palbert.inference.forward import Forward, ReplayedForward
from palbert.inference.results import TaskResult
from palbert.metrics import Values, find_metric
from palbert.model.multitask import MultiTaskModel
from palbert.runtime.progress import bar
from palbert.targets import Decoded
from palbert.tasks.spec import Task

TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 65536, "mps": 16384}
"""Few on the CPU, where the activations of a layer then stay in the cache."""


class Inference:
    """A model with everything it needs to turn tokens into outputs."""

    def __init__(
        self,
        model: MultiTaskModel,
        *,
        template: Template,
        device: torch.device,
        arithmetic: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.model = model
        self.template = template
        self.device = device
        self.forward = (ReplayedForward if device.type == "cuda" else Forward)(model, device, arithmetic)

    def answer(self, task: Task, tokens: tuple[Ragged, ...], *, title: str | None = None) -> Decoded:
        """Return the predictions for all rows."""
        return task.target.decode(self.outputs(task, tokens, title=title))

    def outputs(self, task: Task, tokens: tuple[Ragged, ...], *, title: str | None = None) -> Tensor:
        """Return the head's outputs, (rows, outputs); rows of similar length share a batch."""
        rows = len(tokens[0])
        lengths = sequence_lengths(tokens, self.template, max_length=task.max_length, siamese=task.siamese)
        batches = by_length(lengths.reshape(-1, rows).sum(axis=0), TOKENS_PER_BATCH[self.device.type])
        outputs = torch.empty(rows, task.outputs)
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode(), bar(title or task.name, total=rows) as line:
            for chosen in batches:
                portion = Portion(task.name, task.name, tokens, chosen, task.max_length, task.siamese)
                outputs[torch.from_numpy(chosen)] = _checked(
                    self.forward(portion, self.template), task, len(chosen)
                ).cpu()
                line.advance(len(chosen))
        self.model.train(was_training)
        return outputs


def _checked(outputs: Tensor, task: Task, rows: int) -> Tensor:
    """Return the outputs of a task's pooling and head if they have the right shape."""
    if outputs.shape == (rows, task.outputs):
        return outputs
    raise RecipeError(
        f"tasks.{task.name}: for {rows} rows, pooling and head give outputs of shape {tuple(outputs.shape)}; "
        f"expected {(rows, task.outputs)}.",
        hint="A pooling returns (sequences, hidden), a head (examples, outputs).",
    )


def evaluate_tasks(
    inference: Inference, tasks: Mapping[str, Task], datasets: Mapping[str, Dataset]
) -> list[TaskResult]:
    """Score every task on its rows."""
    return [
        score(tasks[name], dataset, inference.answer(tasks[name], dataset.tokens, title=f"evaluating {name}"))
        for name, dataset in datasets.items()
    ]


def score(task: Task, dataset: Dataset, decoded: Decoded) -> TaskResult:
    """Compare predictions with labels."""
    assert dataset.labels is not None, f"{task.name} {dataset.split}: scoring needs labels"
    gold = task.target.gold(dataset.labels)
    return TaskResult(
        task=task.name,
        split=dataset.split,
        target=task.target,
        metric=task.metric,
        scores={name: _score(name, gold, decoded) for name in task.metrics},
        ids=list(dataset.ids),
        texts=list(zip(*dataset.texts, strict=True)),
        gold=gold,
        predicted=decoded.predicted,
        probabilities=decoded.probabilities,
    )


def _score(name: str, gold: Values, decoded: Decoded) -> float:
    metric = find_metric(name)
    return metric(gold, metric.compared(decoded.predicted, decoded.probabilities))


def constant_baseline(task: Task, train: Dataset, dev: Dataset) -> float:
    """Return the main metric of the target's best constant prediction, such as the most frequent class or the mean."""
    assert train.labels is not None and dev.labels is not None
    constant = np.full_like(dev.labels, task.target.baseline(train.labels))
    return find_metric(task.metric)(dev.labels, constant)


def by_length(lengths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Sort rows by length, longest first, and split them into batches of at most `budget` tokens."""
    order = np.argsort(-lengths, kind="stable")
    filled = np.cumsum(lengths[order])
    batches, start = [], 0
    while start < len(order):
        before = filled[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(filled, before + budget, side="right")))
        batches.append(order[start:stop])
        start = stop
    return batches
