"""Findings about data: leaks, classes without rows, contradicting labels, rows left out or cut."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from palbert.data.collate import count_truncated
from palbert.data.dataset import Dataset
from palbert.data.overlap import count_found
from palbert.data.row_keys import first_rows, row_keys
from palbert.tasks.catalog import SEEN_BY_ENCODERS
from palbert.verbs.data_log import describe_held_out
from palbert.verbs.findings.evidence import Evidence


def sample_data(evidence: Evidence) -> Iterator[str]:
    """Say that the data are those that come with palbert."""
    if evidence.recipe.data == "samples":
        yield "Trained and scored on palbert's small sample data: a demonstration, not a benchmark."


def scored_on_training_files(evidence: Evidence) -> Iterator[str]:
    """Name tasks whose scored files are training files."""
    for name in evidence.datasets:
        if evidence.trains_on_scored_files(name):
            yield f"{name}: trained on its {evidence.split} rows, so the score says nothing about other rows."


def leaked_rows(evidence: Evidence) -> Iterator[str]:
    """Count scored rows that are also training rows."""
    if evidence.split == "train":
        return
    for name, dataset in evidence.datasets.items():
        leaked = count_found(dataset.texts, (each.rows.texts for each in evidence.train.values() if each.task == name))
        if leaked and not evidence.trains_on_scored_files(name):
            yield (
                f"{name}: {_of(leaked, len(dataset))} {evidence.split} rows are also training rows, so its score is "
                f'too high. Leave them out of training: tasks.{name}.drop_overlap = ["{evidence.split}"].'
            )


def seen_by_encoder(evidence: Evidence) -> Iterator[str]:
    """Name tasks whose data the encoder was trained on."""
    encoder = evidence.recipe.encoder.name
    for seen, encoders in SEEN_BY_ENCODERS.items():
        known = any(part in encoder.lower() for part in encoders)
        if seen in evidence.recipe.tasks and evidence.recipe.data != "samples" and known:
            yield f"{encoder} has seen {seen} pairs in its own training: its {seen} score is not clean."


def one_class_in_train(evidence: Evidence) -> Iterator[str]:
    """Name tasks that cannot be learned because all training rows have the same class."""
    for name in evidence.datasets:
        counts = _class_counts(evidence, name)
        present = [each for each, count in counts.items() if count]
        if len(counts) > 1 and len(present) == 1:
            yield (
                f"{name}: all training rows have the class '{present[0]}', so there is nothing to learn. "
                "Add rows of the other classes."
            )


def class_absent_in_train(evidence: Evidence) -> Iterator[str]:
    """Name classes that no training row has."""
    for name in evidence.datasets:
        counts = _class_counts(evidence, name)
        absent = [each for each, count in counts.items() if not count]
        if absent and len(counts) - len(absent) != 1:
            yield (
                f"{name}: no training row has {_classes(absent)}, so it cannot be learned. Add rows, or take the "
                "class out of classes."
            )


def class_absent_in_split(evidence: Evidence) -> Iterator[str]:
    """Name classes that no scored row has."""
    for name, dataset in evidence.datasets.items():
        if dataset.labels is None:
            continue
        target = evidence.recipe.tasks[name].target
        counts = target.class_counts(dataset.labels)
        absent = [each for each, count in zip(target.classes, counts, strict=False) if not count]
        if absent:
            yield (
                f"{name}: no {evidence.split} row has {_classes(absent)}, so the score says nothing about it. "
                f"Add rows of it to {evidence.split}."
            )


def conflicting_labels(evidence: Evidence) -> Iterator[str]:
    """Count training rows with the texts of another row and another label."""
    for name, dataset in evidence.train_rows:
        if dataset.labels is None:
            continue
        first = first_rows(row_keys(dataset.texts))
        again = np.flatnonzero(first != np.arange(len(first)))
        differ = dataset.labels[again] != dataset.labels[first[again]]
        conflicts = int(differ.reshape(len(again), -1).any(axis=1).sum()) if len(again) else 0
        if conflicts:
            yield (
                f"{name} train: {conflicts} of {len(dataset)} rows repeat the text of another row with a different "
                "label. Correct their labels: palbert data check shows them."
            )


def left_out(evidence: Evidence) -> Iterator[str]:
    """Count rows that were left out."""
    for name, dataset in evidence.all_rows:
        if dataset.dropped:
            yield f"{name} {dataset.split}: {dataset.dropped} rows without text or label were left out."
        if dataset.overlapping:
            kinds = " or ".join(evidence.recipe.sets[name].task.drop_overlap)
            yield f"{name} train: {dataset.overlapping} rows were left out because they are also in {kinds}."
        if dataset.unpaired:
            yield f"{name} train: {dataset.unpaired} premises without entailment or contradiction were left out."


def cut(evidence: Evidence) -> Iterator[str]:
    """Count rows that are longer than sequences may be."""
    for name, dataset in evidence.all_rows:
        spec = evidence.recipe.sets[name]
        rows = count_truncated(dataset.tokens, evidence.template, max_length=spec.max_length, siamese=spec.siamese)
        if rows:
            remedy = f" Raise {spec.place}.max_length to read them whole." if rows > len(dataset) / 100 else ""
            yield f"{name} {dataset.split}: {rows} of {len(dataset)} rows were cut at {spec.max_length} tokens.{remedy}"


def held_out(evidence: Evidence) -> Iterator[str]:
    """Say how many training rows are the dev rows, where there is no dev file."""
    for name, dataset in evidence.datasets.items():
        task = evidence.recipe.tasks[name]
        if evidence.split == "dev" and task.held_out and name in evidence.train:
            yield describe_held_out(task, train=evidence.train[name].rows, dev=dataset)


def _class_counts(evidence: Evidence, task: str) -> dict[str, int]:
    """Count the training rows of each class of a task, over all its sets; nothing where it has no classes."""
    target = evidence.recipe.tasks[task].target
    rows: list[Dataset] = [each.rows for each in evidence.train.values() if each.task == task]
    labelled = [target.class_counts(each.labels) for each in rows if each.labels is not None]
    return {name: int(sum(counts)) for name, *counts in zip(target.classes, *labelled, strict=False) if counts}


def _classes(names: list[str]) -> str:
    """Write class names as the reader of a sentence expects them."""
    quoted = [f"'{name}'" for name in names]
    shown = quoted if len(quoted) <= 5 else [*quoted[:4], f"{len(quoted) - 4} others"]
    joined = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
    return f"the class {joined}"


def _of(part: int, whole: int) -> str:
    """Write a count with its share."""
    return f"{part} of {whole} ({100 * part / whole:.3g} %)"
