"""Advice: what the data of a recipe suggests, before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from palbert.reporting.data_summary import SplitSummary
from palbert.reporting.wording import percent
from palbert.tasks.spec import Task

FEW = 1_000
"""With fewer training rows, the settings that automatic training chooses matter most."""
IMBALANCE = 5.0
"""Classes are imbalanced if the largest has more than so many times the rows of the smallest."""
LONG = 0.05
"""Texts are long if more than this share of the sequences is cut."""


def advice(task: Task, train: SplitSummary, *, automatic: bool, longest: int) -> Iterator[str]:
    """Yield one sentence for each setting of a task that its training rows speak for.

    Args:
        task: The task.
        train: The summary of its training rows.
        automatic: Whether palbert chooses how long and how fast to train.
        longest: The longest sequence that the encoder takes, in tokens.
    """
    yield from _few_rows(task, train, automatic)
    yield from _imbalance(task, train)
    yield from _similarity(task, automatic)
    yield from _long_texts(task, train, longest)


def _few_rows(task: Task, summary: SplitSummary, automatic: bool) -> Iterator[str]:
    if summary.rows < FEW and not automatic:
        yield (
            f'{task.name}: {summary.rows:,} training rows are few. training = "auto" chooses epochs, batch size and '
            "rates for them, and starts from a linear model."
        )


def _imbalance(task: Task, summary: SplitSummary) -> Iterator[str]:
    counts = task.target.class_counts(summary.labels) if len(summary.labels) else np.zeros(0, dtype=np.int64)
    if len(counts) < 2 or task.class_weights or task.prior:
        return
    rarest, commonest = int(counts.argmin()), int(counts.argmax())
    if counts[rarest] == 0:
        yield f"{task.name}: no training row has the class '{task.classes[rarest]}', so it will never be predicted."
    elif counts[commonest] > IMBALANCE * counts[rarest]:
        yield (
            f"{task.name}: '{task.classes[commonest]}' has {counts[commonest]:,} training rows and "
            f"'{task.classes[rarest]}' has {counts[rarest]:,}. class_weights = \"balanced\" gives each class the same "
            'weight; metrics = ["macro_f1", …] scores it so.'
        )


def _similarity(task: Task, automatic: bool) -> Iterator[str]:
    open_shape = not {"pair_input", "head", "pooling"} & task.model_fields_set
    if task.kind == "pair" and task.target.of_cosine(np.zeros(1)) is not None and open_shape and not automatic:
        yield (
            f'{task.name}: for similarities of pairs, pair_input = "siamese", pooling = "mean" and head = "cosine" '
            "start from what the encoder knows; one sequence for both texts does not."
        )


def _long_texts(task: Task, summary: SplitSummary, longest: int) -> Iterator[str]:
    if summary.truncated_share <= LONG:
        return
    needed = int(np.percentile(summary.lengths, 95))
    share = percent(summary.truncated_share)
    if task.max_length >= longest:
        yield f"{task.name}: {share} of the texts are cut at {task.max_length} tokens, the most that the encoder takes."
    else:
        most = min(needed, longest)
        kept = "95 % of them whole" if most == needed else "as much as the encoder takes"
        yield (
            f"{task.name}: {share} of the texts are cut at {task.max_length} tokens. max_length = {most} keeps {kept}, "
            "at the price of time and memory."
        )
