"""Evaluator: run a model over whole data sets, longest rows first, and score its predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.data.collate import Portion, collate, sequence_lengths
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import Template
from palbert.errors import AnswerError, RecipeError
from palbert.inference.decisions import Decision
from palbert.inference.forward import Forward, ReplayedForward
from palbert.inference.questions import OneTask, Question, SeveralTasks, share_a_pass
from palbert.inference.results import TaskResult
from palbert.metrics import Values, find_metric
from palbert.model.multitask import MultiTaskModel
from palbert.runtime.distributed import Ranks
from palbert.runtime.progress import bar
from palbert.targets import Decoded
from palbert.tasks.spec import Task

TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 65536, "mps": 16384}
"""Few on the CPU, where the activations of a layer then stay in the cache."""


@dataclass(frozen=True)
class Packing:
    """How rows become sequences, and which task's adapter they pass through."""

    task: str
    max_length: int
    """Tokens per sequence, special tokens included."""
    siamese: bool = False
    """Whether pairs are two sequences each."""

    @classmethod
    def of(cls, task: Task) -> Packing:
        """Return how a task's rows are packed."""
        return cls(task.name, task.max_length, task.siamese)


@dataclass(frozen=True)
class Asked:
    """Rows that are packed alike, and what computes the answer to a question about them."""

    forward: Forward
    packing: Packing
    tokens: tuple[Ragged, ...]
    """The rows' token ids by text column."""

    def lengths(self, template: Template) -> NDArray[np.int64]:
        """Return the tokens of each row, special ones included, as they are packed."""
        packing = self.packing
        lengths = sequence_lengths(self.tokens, template, max_length=packing.max_length, siamese=packing.siamese)
        total: NDArray[np.int64] = lengths.reshape(-1, len(self.tokens[0])).sum(axis=0)
        return total

    def count(self, template: Template) -> int:
        """Return the tokens of all rows."""
        return int(self.lengths(template).sum())


class Inference:
    """A model with everything it needs to turn tokens into outputs.

    With several processes (`ranks`), all make the same calls: each computes some of the batches and gets all outputs.
    """

    def __init__(
        self,
        model: MultiTaskModel,
        *,
        template: Template,
        device: torch.device,
        arithmetic: Callable[[], AbstractContextManager[Any]],
        ranks: Ranks | None = None,
    ) -> None:
        self.ranks = ranks or Ranks()
        self.model = model
        self.template = template
        self.device = device
        self.arithmetic = arithmetic
        self.forward = self.ask(OneTask(model))
        self._shared: dict[tuple[str, ...], Forward] = {}
        self.decisions: dict[str, Decision] = {}
        """How outputs become answers, by task, where dev has chosen it."""

    @property
    def budget(self) -> int:
        """Tokens up to which rows share a batch."""
        return TOKENS_PER_BATCH[self.device.type]

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Compute without dropout and without gradients; a model that is being trained continues afterwards."""
        was_training = self.model.training
        if was_training:
            self.model.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            if was_training:
                self.model.train()

    def ask(self, question: Question) -> Forward:
        """Return what computes the answers to a question, for `run`."""
        return (ReplayedForward if self.device.type == "cuda" else Forward)(question, self.device, self.arithmetic)

    def answer(self, task: Task, tokens: tuple[Ragged, ...], *, title: str | None = None) -> Decoded:
        """Return the predictions for all rows."""
        return self.decode(task, self.outputs(task, tokens, title=title))

    def decode(self, task: Task, outputs: Tensor) -> Decoded:
        """Return the predictions for a head's outputs, calibrated and with thresholds where dev has chosen them."""
        decision = self.decisions.get(task.name) or Decision.of(task)
        return decision.decode(task.target, outputs)

    def outputs(self, task: Task, tokens: tuple[Ragged, ...], *, title: str | None = None) -> Tensor:
        """Return the head's outputs, (rows, outputs); rows of similar length share a batch."""
        found = self.run(self.forward, tokens, Packing.of(task), width=task.outputs, title=title or task.name)
        return refuse_broken(found, f"tasks.{task.name}: the output")

    def outputs_of(self, tasks: Sequence[Task], tokens: tuple[Ragged, ...]) -> dict[str, Tensor]:
        """Return the outputs of several tasks for the same rows.

        Tasks that see the same tokens through the same adapter are answered from the same states; where few rows are
        asked, those of all tasks are computed in one mixed pass.
        """
        groups = share_a_pass(tasks, self.model.adapter_of)
        asked = [Asked(self.ask_tasks(group), Packing.of(group[0]), tokens) for group in groups]
        outputs: dict[str, Tensor] = {}
        if self.ranks.size == 1 and sum(each.count(self.template) for each in asked) <= self.budget:
            for group, found in zip(groups, self.run_together(asked), strict=True):
                outputs |= self.by_task(group, found)
            return {task.name: outputs[task.name] for task in tasks}
        for group, each in zip(groups, asked, strict=True):
            width, title = sum(task.outputs for task in group), ", ".join(task.name for task in group)
            found = self.run(each.forward, tokens, each.packing, width=width, title=title)
            outputs |= self.by_task(group, found)
        return {task.name: outputs[task.name] for task in tasks}

    def ask_tasks(self, group: Sequence[Task]) -> Forward:
        """Return what computes the outputs of tasks that share a pass, next to each other."""
        names = tuple(task.name for task in group)
        if names not in self._shared:
            self._shared[names] = self.ask(SeveralTasks(self.model, names))
        return self._shared[names]

    def by_task(self, group: Sequence[Task], outputs: Tensor) -> dict[str, Tensor]:
        """Take the outputs of tasks that share a pass apart; raise AnswerError where some are not numbers."""
        widths = [task.outputs for task in group]
        return {
            task.name: refuse_broken(own, f"tasks.{task.name}: the output")
            for task, own in zip(group, torch.split(outputs, widths, dim=1), strict=True)
        }

    def run_together(self, asked: Sequence[Asked]) -> list[Tensor]:
        """Return what each question gives for its rows, (rows, width): one pass of the encoder computes all of them.

        The caller sees to it that all rows fit into one batch. On CUDA, each question has a pass, since recorded
        graphs compute a small pass faster than a mixed one is launched.
        """
        portions = [
            Portion(str(number), each.packing.task, each.tokens, np.arange(len(each.tokens[0])),
                    each.packing.max_length, each.packing.siamese)
            for number, each in enumerate(asked)
        ]  # fmt: skip
        with self._answering():
            if self.device.type == "cuda" or len(asked) == 1:
                pairs = zip(asked, portions, strict=True)
                return [each.forward(portion, self.template).cpu() for each, portion in pairs]
            batch = collate(portions, self.template).to(self.device)
            with self.arithmetic():
                states = self.model.states(batch)
                return [
                    each.forward.question.read(states, batch, part).cpu()
                    for each, part in zip(asked, batch.parts.values(), strict=True)
                ]

    def run(
        self,
        forward: Callable[[Portion, Template], Tensor],
        tokens: tuple[Ragged, ...],
        packing: Packing,
        *,
        width: int,
        title: str,
    ) -> Tensor:
        """Return what a forward pass gives for each row, (rows, width)."""
        rows = len(tokens[0])
        lengths = sequence_lengths(tokens, self.template, max_length=packing.max_length, siamese=packing.siamese)
        batches = by_length(lengths.reshape(-1, rows).sum(axis=0), self.budget)
        own = batches[self.ranks.rank :: self.ranks.size]
        outputs = torch.zeros(rows, width)
        with self._answering(), bar(title, total=sum(map(len, own))) as line:
            for chosen in own:
                portion = Portion(packing.task, packing.task, tokens, chosen, packing.max_length, packing.siamese)
                found = forward(portion, self.template)
                outputs[torch.from_numpy(chosen)] = _checked(found, packing.task, (len(chosen), width)).cpu()
                line.advance(len(chosen))
        self.ranks.add_in_place(outputs)  # rows of other processes are 0 here: the sum is exact
        return outputs


def _checked(outputs: Tensor, task: str, shape: tuple[int, int]) -> Tensor:
    """Return the outputs of a task's pooling and head if they have the right shape."""
    if outputs.shape == shape:
        return outputs
    raise RecipeError(
        f"tasks.{task}: for {shape[0]} rows, pooling and head give outputs of shape {tuple(outputs.shape)}; "
        f"expected {shape}.",
        hint="A pooling returns (sequences, hidden), a head (examples, outputs).",
    )


def refuse_broken(outputs: Tensor, what: str) -> Tensor:
    """Return the outputs of rows; raise AnswerError, which calls them `what`, if some are NaN or infinite."""
    finite = np.isfinite(outputs.numpy()).all(axis=1)
    if not finite.all():
        raise AnswerError(
            what,
            int(finite.argmin()),
            hint="Divisions and logarithms in a head or pooling of your own may give such numbers; in half precision, "
            'large numbers become infinite: take run.precision = "fp32" (--precision fp32).',
        )
    return outputs


def evaluate_tasks(
    inference: Inference, tasks: Mapping[str, Task], datasets: Mapping[str, Dataset]
) -> list[TaskResult]:
    """Score every task on its rows."""
    results = []
    for name, dataset in datasets.items():
        outputs = inference.outputs(tasks[name], dataset.tokens, title=f"evaluating {name}")
        result = score(tasks[name], dataset, inference.decode(tasks[name], outputs))
        results.append(replace(result, outputs=outputs.double().numpy()))
    return results


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
    """Return the main metric of the target's best constant prediction, such as the most frequent class or the mean.

    A metric of probabilities gets the share of each class among the training rows.
    """
    assert train.labels is not None and dev.labels is not None
    metric, target = find_metric(task.metric), task.target
    shares = np.tile(target.class_counts(train.labels) / len(train), (len(dev), 1))
    constant = np.full_like(dev.labels, target.baseline(train.labels))
    return metric(dev.labels, metric.compared(constant, shares))


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
