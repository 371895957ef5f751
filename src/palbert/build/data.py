"""The data of a recipe: its training sets, and the rows of dev and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from palbert.data.dataset import Dataset, load_dataset
from palbert.data.overlap import find_overlap, index_rows
from palbert.data.readers import resolve_files
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.data.triplets import make_triplets
from palbert.errors import DataError
from palbert.recipe.schema import Recipe
from palbert.runtime.files import sha256
from palbert.tasks.sets import SetSpec, files_of
from palbert.tasks.sources import Split
from palbert.tasks.spec import Overlap, Task


def load_training_sets(recipe: Recipe, tokenizer: TextTokenizer) -> dict[str, TrainingSet[Dataset]]:
    """Read the training sets of all tasks, by name; leave out rows that a task must not share with dev or test."""
    return {
        spec.name: TrainingSet.of(
            spec, _without_overlap(spec.task, load_rows(spec, tokenizer)), batch_size=recipe.batch_size(spec)
        )
        for spec in recipe.sets.values()
        if spec.files.sources
    }


def load_split(recipe: Recipe, split: Split, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read the rows of one split to score, of every task that has any; of "train", those of the task's own set."""
    if split == "train":
        sets = load_training_sets(recipe, tokenizer).values()
        return {each.task: each.rows for each in sets if each.name == each.task}
    return {
        name: load_dataset(files_of(task, split), tokenizer)
        for name, task in recipe.tasks.items()
        if getattr(task, split)
    }


def sets_of_stage(stage: Recipe, sets: Mapping[str, TrainingSet[Dataset]]) -> dict[str, TrainingSet[Dataset]]:
    """Return the sets that one stage of a recipe trains on, with the batch sizes of that stage."""
    return {name: replace(sets[name], batch_size=stage.batch_size(spec)) for name, spec in stage.sets.items()}


def load_rows(spec: SetSpec, tokenizer: TextTokenizer) -> Dataset:
    """Read all rows of a training set; make triplets where it has labelled pairs to make them from."""
    dataset = load_dataset(spec.files, tokenizer)
    return make_triplets(dataset) if spec.triplets and spec.files.labelled else dataset


def count_overlap(task: Task, dataset: Dataset, *, local: bool = False) -> dict[str, int]:
    """Count the training rows that also occur in the task's dev and test files, by the kinds of `drop_overlap`.

    Args:
        task: The task, whose files they are.
        dataset: One of its training sets.
        local: Leave out splits that would have to be fetched from the Hub.
    """
    kinds: list[Overlap] = ["dev", "test"]
    kinds += ["dev-texts", "test-texts"] if task.kind == "pair" else []
    there = [kind for kind in kinds if (files := getattr(task, _split(kind))) and not (local and _remote(files))]
    return {kind: int(mask.sum()) for kind, mask in zip(there, _masks(task, dataset, there), strict=True)}


def _without_overlap(task: Task, dataset: Dataset) -> Dataset:
    """Leave out the rows that a task's `drop_overlap` names."""
    if not task.drop_overlap:
        return dataset
    overlapping = np.logical_or.reduce(_masks(task, dataset, list(task.drop_overlap)))
    if overlapping.all():
        raise DataError(
            f"{', '.join(dataset.files)}: all {len(dataset):,} training rows of {task.name} are in "
            f"{' or '.join(task.drop_overlap)}.",
            hint=f"Give other files, or leave tasks.{task.name}.drop_overlap out.",
        )
    paths = [source.path for kind in task.drop_overlap for source in getattr(task, _split(kind))]
    read = {str(file): sha256(file) for path in paths for file in resolve_files(path)}
    kept = dataset.take(np.flatnonzero(~overlapping)) if overlapping.any() else dataset
    return replace(kept, overlapping=int(overlapping.sum()), files={**dataset.files, **read})


def _masks(task: Task, dataset: Dataset, kinds: list[Overlap]) -> list[np.ndarray]:
    splits = {split: index_rows(files_of(task, split)) for split in dict.fromkeys(map(_split, kinds))}
    return find_overlap(dataset, [(splits[_split(kind)], kind.endswith("-texts")) for kind in kinds])


def _split(kind: Overlap) -> Split:
    return "dev" if kind.startswith("dev") else "test"


def _remote(files: tuple[object, ...]) -> bool:
    return any(getattr(source, "path", "").startswith("hf:") for source in files)
