"""Advice: each kind where the rows speak for it, and none where the recipe has it already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from palbert.reporting.advice import advice
from palbert.reporting.data_summary import SplitSummary
from palbert.tasks.spec import Task


def task(**settings: Any) -> Task:
    values = {"name": "mine", "kind": "single", "target": "binary", "text": ["text"], **settings}
    return Task.model_validate(values)


def pair(**settings: Any) -> Task:
    return task(kind="pair", target="number", text=["a", "b"], **settings)


def rows(of: Task, labels: Sequence[float], *, lengths: list[int] | None = None) -> SplitSummary:
    found = np.array(lengths or [10] * len(labels))
    return SplitSummary(
        name="mine",
        split="train",
        files=(),
        rows=len(labels),
        labels=of.target.array(labels),
        target=of.target,
        lengths=found,
        max_length=of.max_length,
        truncated=int((found > of.max_length).sum()),
        duplicates=0,
        empty=0,
        leaked=0,
        examples=[],
        dropped=0,
    )


def given(of: Task, labels: Sequence[float], *, automatic: bool = True, **more: Any) -> list[str]:
    return list(advice(of, rows(of, labels, **more), automatic=automatic, longest=512))


def test_few_rows_speak_for_automatic_training() -> None:
    [found] = given(task(), [0, 1] * 20, automatic=False)
    assert 'training = "auto"' in found
    assert given(task(), [0, 1] * 20) == []
    assert given(task(), [0, 1] * 600, automatic=False) == []


def test_rare_classes_speak_for_weights() -> None:
    [found] = given(task(), [0] * 60 + [1] * 10)
    assert 'class_weights = "balanced"' in found and "60" in found and "10" in found
    assert given(task(class_weights="balanced"), [0] * 60 + [1] * 10) == []
    assert given(task(), [0] * 30 + [1] * 10) == []


def test_a_class_without_rows_is_named() -> None:
    [found] = given(task(), [0] * 60)
    assert "'yes'" in found


def test_similarities_speak_for_siamese_cosines() -> None:
    [_, found] = given(pair(), [0.5, 1.0], automatic=False)
    assert 'head = "cosine"' in found
    assert given(pair(), [0.5, 1.0]) == []
    assert not any("cosine" in each for each in given(pair(pooling="mean"), [0.5, 1.0], automatic=False))


@pytest.mark.parametrize(("lengths", "expected"), [([300] * 10, "max_length = 300"), ([900] * 10, "max_length = 512")])
def test_long_texts_speak_for_a_higher_limit(lengths: list[int], expected: str) -> None:
    [found] = given(task(), [0, 1] * 5, lengths=lengths)
    assert expected in found


def test_a_limit_that_cannot_be_raised_is_said() -> None:
    [found] = given(task(max_length=512), [0, 1] * 5, lengths=[900] * 10)
    assert "the most that the encoder takes" in found
