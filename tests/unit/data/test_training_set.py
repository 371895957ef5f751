"""TrainingSet: portions follow its fields, and its name has no meaning."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest

from palbert.data.collate import collate
from palbert.data.dataset import Dataset, load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.recipe.load import make_recipe

Sets = dict[str, TrainingSet[Dataset]]


@pytest.fixture
def sets(tokenizer: TextTokenizer, tmp_path: Path) -> Sets:
    siamese = {"pair_input": "siamese", "head": "concat", "max_length": 12}
    recipe = make_recipe({"data": "samples", "tasks": {"sst": {}, "quora": {"max_length": 20}, "sts": siamese}})
    return {
        name: TrainingSet.of(spec, load_dataset(spec.files, tokenizer, cache=tmp_path), batch_size=5)
        for name, spec in recipe.sets.items()
    }


@pytest.mark.parametrize("name", ["sst", "quora", "sts"])
def test_the_lengths_match_a_batch_of_all_rows(sets: Sets, tokenizer: TextTokenizer, name: str) -> None:
    each = sets[name]
    lengths = each.sequence_lengths(tokenizer.template)
    batch = collate([each.portion(np.arange(len(each)))], tokenizer.template)
    assert lengths.shape == (2 if name == "sts" else 1, len(each)) == (batch.parts[name].width, len(each.rows))
    assert lengths.ravel().tolist() == batch.starts.diff().tolist()
    assert lengths.max() <= each.max_length


@pytest.mark.parametrize("name", ["more", "sst+quora", "quora+", "+", "a+b+c"])
def test_the_name_of_a_set_does_not_determine_its_task(sets: Sets, tokenizer: TextTokenizer, name: str) -> None:
    batch = collate([replace(sets["sst"], name=name).portion(np.arange(3))], tokenizer.template)
    assert list(batch.parts) == [name] and batch.parts[name].task == "sst"


def test_a_portion_holds_the_labels_and_teacher_answers_of_its_rows(sets: Sets, tokenizer: TextTokenizer) -> None:
    answers = np.random.default_rng(0).normal(size=(len(sets["sst"]), 2, 5)).astype(np.float32)
    taught, rows = replace(sets["sst"], teacher_outputs=answers), np.array([4, 1, 4])
    part = collate([taught.portion(rows, share=0.5)], tokenizer.template).parts["sst"]
    assert taught.rows.labels is not None and part.labels is not None and part.teacher_outputs is not None
    assert part.labels.tolist() == taught.rows.labels[rows].tolist()
    assert np.array_equal(part.teacher_outputs.numpy(), answers[rows]) and part.share == 0.5


@pytest.mark.parametrize("triplets", [False, True])
def test_all_sets_except_triplets_are_answered_by_a_head(sets: Sets, tokenizer: TextTokenizer, triplets: bool) -> None:
    portion = replace(sets["sts"], triplets=triplets).portion(np.arange(2))
    assert collate([portion], tokenizer.template).parts["sts"].answered is not triplets


def test_a_set_is_immutable(sets: Sets) -> None:
    with pytest.raises(FrozenInstanceError):
        sets["sst"].batch_size = 1  # type: ignore[misc]
