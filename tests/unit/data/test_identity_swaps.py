"""Identity swaps: every row is followed by its copy, with the same label, in every batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import palbert
from palbert.bias.lexicon import read_lexicon
from palbert.bias.swapper import Swapper
from palbert.build import load_training_sets
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import DataError, RecipeError
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.recipe.schema import Recipe
from palbert.runtime.seeding import seed_everything
from palbert.training.feed import Feed
from palbert.verbs.check import check_data

pytestmark = pytest.mark.usefixtures("on_cpu")
ROWS = [
    ("A man sings.", "Someone sings.", 4.0),
    ("The weather is bad.", "It rains.", 3.0),
    ("An old woman waits.", "The old woman sits.", 2.0),
    ("He loves her.", "She loves him.", 1.0),
]


@pytest.fixture
def recipe(tiny_encoder: Path, tmp_path: Path) -> Callable[..., Recipe]:
    lines = "".join(f"{first}\t{second}\t{score}\n" for first, second, score in ROWS * 3)
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("a\tb\tscore\n" + lines, "utf-8")

    def make(**settings: Any) -> Recipe:
        task = {
            "kind": "pair", "target": "number", "range": [0, 5], "text": ["a", "b"], "label": "score",
            "train": str(tmp_path / "train.tsv"), "dev": str(tmp_path / "dev.tsv"),
            "extra": {"swaps": {"form": "identity-swaps"}}, **settings,
        }  # fmt: skip
        return make_recipe(
            {
                "encoder": {"name": str(tiny_encoder)},
                "tasks": {"t": task},
                "training": {"batch_size": 3, "epochs": 1},
                "run": {"device": "cpu", "tensorboard": False},
            }
        )

    return make


@pytest.fixture
def swaps(recipe: Callable[..., Recipe], tokenizer: TextTokenizer) -> TrainingSet[Any]:
    return load_training_sets(recipe(), tokenizer)["t+swaps"]


def test_every_row_is_followed_by_a_copy_with_its_label_and_tokens(
    swaps: TrainingSet[Any], tokenizer: TextTokenizer
) -> None:
    rows = swaps.rows
    texts = list(zip(*rows.texts, strict=True))
    assert len(texts) == 18 and swaps.together == 2 and swaps.batch_size == 4  # a man; and a woman, who is also old
    swapper = Swapper(read_lexicon())
    for row, copy in zip(texts[::2], texts[1::2], strict=True):
        assert copy in [swap.texts for swap in swapper.swaps(row)]
    assert rows.labels is not None
    np.testing.assert_array_equal(rows.labels[::2], rows.labels[1::2])
    for place in range(2):
        found = tokenizer(list(rows.texts[place]))
        for number in range(len(texts)):
            np.testing.assert_array_equal(rows.tokens[place][number], found[number])


def test_the_same_rows_give_the_same_copies(recipe: Callable[..., Recipe], tokenizer: TextTokenizer) -> None:
    first, second = (load_training_sets(recipe(), tokenizer)["t+swaps"].rows for _ in range(2))
    assert [list(column) for column in first.texts] == [list(column) for column in second.texts]


@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_a_batch_never_separates_a_row_from_its_copy(
    accumulation: int, swaps: TrainingSet[Any], tokenizer: TextTokenizer
) -> None:
    seed_everything(0)
    feed = Feed(
        {"t+swaps": swaps}, seed=0, template=tokenizer.template, device=torch.device("cpu"), accumulation=accumulation
    )
    draws = {"t+swaps": 0}
    for _ in range(7):
        share = 0.0
        for batch in feed(["t+swaps"], draws):
            part = batch.parts["t+swaps"]
            assert part.examples % 2 == 0 and part.labels is not None
            assert (part.labels[::2] == part.labels[1::2]).all()
            share += part.share
        assert share == pytest.approx(1)
        feed.count(["t+swaps"], draws)


def test_rows_held_out_as_dev_are_not_trained_on(
    recipe: Callable[..., Recipe], tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    made = recipe(dev=[], held_out={"share": 0.25})
    lines = "".join(f"A man {number} sings.\tSomeone {number} sings.\t{number % 5}\n" for number in range(40))
    (tmp_path / "train.tsv").write_text("a\tb\tscore\n" + lines, "utf-8")
    sets = load_training_sets(made, tokenizer)
    assert len(sets["t"]) == 30 and len(sets["t+swaps"]) == 60
    own = set(zip(*sets["t"].rows.texts, strict=True))
    assert set(list(zip(*sets["t+swaps"].rows.texts, strict=True))[::2]) == own


def test_the_resolved_recipe_reads_back_and_data_check_leaves_the_copies_out(
    recipe: Callable[..., Recipe], tmp_path: Path
) -> None:
    made = recipe()
    path = tmp_path / "resolved.toml"
    path.write_text(dump_recipe(made), "utf-8")
    assert load_recipe(path).sets["t+swaps"].swapped
    assert {summary.name for summary in check_data(path)} == {"t"}


def test_rows_without_groups_are_an_error_with_a_remedy(
    recipe: Callable[..., Recipe], tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    (tmp_path / "train.tsv").write_text("a\tb\tscore\nIt rains.\tIt snows.\t1\n", "utf-8")
    with pytest.raises(DataError, match="no row of t names a group of people"):
        load_training_sets(recipe(), tokenizer)


def test_other_forms_still_need_files(recipe: Callable[..., Recipe]) -> None:
    with pytest.raises(RecipeError, match=r"extra\.swaps\.train"):
        recipe(extra={"swaps": {"form": "rows"}})


def test_a_run_with_swaps_trains_on_them_and_can_be_repeated(tiny_encoder: Path, tmp_path: Path) -> None:
    values = {
        "seed": 1, "data": "samples", "encoder": {"name": str(tiny_encoder)},
        "objectives": [{"name": "swap-invariance", "weight": 2.0}],
        "tasks": {"sst": {"extra": {"swaps": {"form": "identity-swaps", "factor": 5.0}}}},
        "training": {"epochs": 1, "steps_per_epoch": 8, "batch_size": 3, "log_every": 1, "sampler": "proportional"},
        "run": {"device": "cpu", "tensorboard": False},
    }  # fmt: skip
    runs = [palbert.train(values, out=tmp_path / name) for name in ("first", "second")]
    logged = [(run.path / "metrics.jsonl").read_text("utf-8") for run in runs]
    assert "sst+swaps" in logged[0]
    assert runs[0].report["tasks"] == runs[1].report["tasks"]
