"""Fixtures of findings: evidence made of a few rows, predictions and records, without training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged, Texts
from palbert.data.tokenizer import Template
from palbert.data.training_set import TrainingSet
from palbert.inference.results import TaskResult
from palbert.recipe.load import make_recipe
from palbert.verbs.findings.evidence import Evidence

Rows = Sequence[tuple[str, int]]
TEMPLATE = Template(np.array([1], np.int32), np.array([2], np.int32), np.array([3], np.int32), (0, 0, 0, 1, 1))
TRAIN: Rows = [(f"good film {number}", 2) for number in range(9)] + [("bad film", 0), ("dull film", 1)]
DEV: Rows = [("fine", 2), ("awful", 0), ("slow", 1), ("great", 2)]


def make_dataset(rows: Rows, split: str, *, tokens: int = 4, **counts: Any) -> Dataset:
    texts = [text for text, _ in rows]
    return Dataset(
        task="reviews",
        split=split,
        ids=Texts.from_rows([str(number) for number in range(len(rows))]),
        texts=(Texts.from_rows(texts),),
        tokens=(Ragged.from_rows([[5] * tokens for _ in rows]),),
        labels=np.array([label for _, label in rows]),
        **{"dropped": 0, "unmapped": 0, "files": {}, **counts},
    )


def make_evidence(
    *,
    train: Rows = TRAIN,
    dev: Rows = DEV,
    predicted: Sequence[int] | None = None,
    recipe: dict[str, Any] | None = None,
    split: str = "dev",
    task: dict[str, Any] | None = None,
    counts: dict[str, Any] | None = None,
    **others: Any,
) -> Evidence:
    """Return the evidence of a run that went well, unless it is given otherwise."""
    spec = {
        "kind": "single",
        "target": "classes",
        "classes": ["bad", "dull", "good"],
        "text": "text",
        "train": "train.csv",
        "dev": "dev.csv",
        "test": "test.csv",
    }
    values = {"encoder": "some/encoder", "tasks": {"reviews": {**spec, **(task or {})}}, **(recipe or {})}
    made = make_recipe(values, check_files=False)
    rows = make_dataset(train, "train", **(counts or {}))
    scored = make_dataset(dev, split)
    gold = np.array([label for _, label in dev])
    answers = gold if predicted is None else np.array(predicted)
    right = float(np.mean(gold == answers))
    result = TaskResult(
        task="reviews",
        split=split,
        target=made.tasks["reviews"].target,
        metric="accuracy",
        scores={"accuracy": right},
        ids=list(scored.ids),
        texts=[(text,) for text, _ in dev],
        gold=gold,
        predicted=answers,
        probabilities=np.eye(3)[answers],
    )
    return Evidence(
        recipe=made,
        train={"reviews": TrainingSet.of(made.sets["reviews"], rows, batch_size=8)},
        datasets={"reviews": scored},
        template=TEMPLATE,
        results=[result],
        **{"intervals": {"reviews": {"low": right - 0.01, "high": right + 0.01}}, **others},
    )


@pytest.fixture
def evidence() -> Callable[..., Evidence]:
    """Return a function that makes evidence."""
    return make_evidence
