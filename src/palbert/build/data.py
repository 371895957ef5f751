"""The data of a recipe."""

from __future__ import annotations

from palbert.data.dataset import Dataset, Split, load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.recipe.schema import Recipe


def load_datasets(recipe: Recipe, split: Split, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read one split of every task that has files for it; of the training data, the extra sets too."""
    sets = recipe.sets if split == "train" else recipe.tasks
    return {name: load_dataset(task, split, tokenizer) for name, task in sets.items() if getattr(task, split)}
