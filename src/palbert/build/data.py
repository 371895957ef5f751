"""The data of a recipe."""

from __future__ import annotations

from palbert.data.dataset import Dataset, Split, load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.data.triplets import make_triplets
from palbert.recipe.schema import Recipe
from palbert.tasks.spec import Task


def load_datasets(recipe: Recipe, split: Split, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read one split of every task that has files for it; of the training data, the extra sets too."""
    sets = recipe.sets if split == "train" else recipe.tasks
    return {name: load_set(task, split, tokenizer) for name, task in sets.items() if getattr(task, split)}


def load_set(task: Task, split: Split, tokenizer: TextTokenizer) -> Dataset:
    """Read one split of a task; one of its extra sets of pairs that are to be triplets becomes them."""
    dataset = load_dataset(task, split, tokenizer)
    return make_triplets(dataset) if task.triplets and task.labelled else dataset
