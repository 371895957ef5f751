"""The data of a recipe: its training sets, and the rows of dev and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from palbert.data.dataset import Dataset
from palbert.data.held_out_split import load_part
from palbert.data.identity_swaps import with_swapped_copies
from palbert.data.overlap import RowIndex, find_overlap, index_rows
from palbert.data.split_column import marked_splits
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.data.triplets import make_triplets
from palbert.errors import DataError
from palbert.readers import is_remote, resolve_files
from palbert.recipe.schema import Recipe
from palbert.runtime.files import sha256
from palbert.tasks.sets import DataFiles, SetSpec, files_of
from palbert.tasks.sources import Split
from palbert.tasks.spec import Overlap, Task


def load_training_sets(recipe: Recipe, tokenizer: TextTokenizer) -> dict[str, TrainingSet[Dataset]]:
    """Read the training sets of all tasks, by name; leave out rows that a task must not share with dev or test."""
    return {
        spec.name: load_training_set(recipe, spec, tokenizer) for spec in recipe.sets.values() if spec.files.sources
    }


def load_training_set(recipe: Recipe, spec: SetSpec, tokenizer: TextTokenizer) -> TrainingSet[Dataset]:
    """Read one training set of a recipe; leave out rows that its task must not share with dev or test."""
    rows = _without_overlap(spec.task, load_rows(spec, tokenizer), tokenizer)
    if spec.swapped:
        rows = with_swapped_copies(rows, tokenizer)
    return TrainingSet.of(spec, rows, batch_size=recipe.batch_size(spec))


def load_split(recipe: Recipe, split: Split, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read the rows of one split to score, of every task that has any; of "train", those of the task's own set."""
    if split == "train":
        sets = load_training_sets(recipe, tokenizer).values()
        return {each.task: each.rows for each in sets if each.name == each.task}
    there = {name: files_of(task, split) for name, task in recipe.tasks.items() if has_rows(task, split)}
    return {name: load_part(files, tokenizer) for name, files in there.items()}


def has_rows(task: Task, split: Split) -> bool:
    """Whether a task has rows of a split: files of its own, rows held out from train, or rows marked in a column."""
    files = files_of(task, split)
    if split == "test" and files.marked:  # a column need not mark any rows as test
        return "test" in marked_splits(files)
    return bool(files.sources)


def sets_of_stage(stage: Recipe, sets: Mapping[str, TrainingSet[Dataset]]) -> dict[str, TrainingSet[Dataset]]:
    """Return the sets that one stage of a recipe trains on, with the batch sizes of that stage."""
    return {name: replace(sets[name], batch_size=stage.batch_size(spec)) for name, spec in stage.sets.items()}


def load_rows(spec: SetSpec, tokenizer: TextTokenizer) -> Dataset:
    """Read all rows of a training set; make triplets where it has labelled pairs to make them from."""
    dataset = load_part(spec.files, tokenizer)
    return make_triplets(dataset) if spec.triplets and spec.files.labelled else dataset


def count_overlap(task: Task, dataset: Dataset, tokenizer: TextTokenizer, *, local: bool = False) -> dict[str, int]:
    """Count the training rows that also occur in the task's dev and test rows, by the kinds of `drop_overlap`.

    Args:
        task: The task, whose rows they are.
        dataset: One of its training sets.
        tokenizer: Reads the training files, if dev rows are held out from them.
        local: Leave out splits that would have to be fetched.
    """
    kinds: list[Overlap] = ["dev", "test"]
    kinds += ["dev-texts", "test-texts"] if task.kind == "pair" else []
    splits = {split for split in ("dev", "test") if has_rows(task, split) and not (local and _remote(task, split))}
    there = [kind for kind in kinds if _split(kind) in splits]
    return {kind: int(mask.sum()) for kind, mask in zip(there, _masks(task, dataset, there, tokenizer), strict=True)}


def _without_overlap(task: Task, dataset: Dataset, tokenizer: TextTokenizer) -> Dataset:
    """Leave out the rows that a task's `drop_overlap` names."""
    if not task.drop_overlap:
        return dataset
    overlapping = np.logical_or.reduce(_masks(task, dataset, list(task.drop_overlap), tokenizer))
    if overlapping.all():
        raise DataError(
            f"{', '.join(dataset.files)}: all {len(dataset):,} training rows of {task.name} are in "
            f"{' or '.join(task.drop_overlap)}.",
            hint=f"Give other files, or leave tasks.{task.name}.drop_overlap out.",
        )
    paths = [source.path for kind in task.drop_overlap for source in files_of(task, _split(kind)).sources]
    read = {str(file): sha256(file) for path in paths for file in resolve_files(path)}
    kept = dataset.take(np.flatnonzero(~overlapping)) if overlapping.any() else dataset
    return replace(kept, overlapping=int(overlapping.sum()), files={**dataset.files, **read})


def _masks(task: Task, dataset: Dataset, kinds: list[Overlap], tokenizer: TextTokenizer) -> list[np.ndarray]:
    splits = {split: _index(files_of(task, split), tokenizer) for split in dict.fromkeys(map(_split, kinds))}
    return find_overlap(dataset, [(splits[_split(kind)], kind.endswith("-texts")) for kind in kinds])


def _index(files: DataFiles, tokenizer: TextTokenizer) -> RowIndex:
    """Return the rows of a split to look up others in; which ones are held out depends on all training rows."""
    if files.held_out is None:
        return index_rows(files)
    return RowIndex(zip(*load_part(files, tokenizer).texts, strict=True))


def _split(kind: Overlap) -> Split:
    return "dev" if kind.startswith("dev") else "test"


def _remote(task: Task, split: Split) -> bool:
    return any(is_remote(source.path) for source in files_of(task, split).sources)
