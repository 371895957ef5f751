"""The trainer of masked words: its texts, its checks, and that its parts follow the recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.build import check_pretraining, load_corpus
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.model.encoder import Encoder
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe
from palbert.recipe.sections import PretrainingSection
from palbert.runtime.files import sha256
from palbert.runtime.run_folder import RunFolder
from palbert.training.optimizer import rates
from palbert.verbs.pretrain import PretrainingJob


@pytest.fixture
def encoder(tiny_encoder: Path) -> Encoder:
    return load_encoder(tiny_encoder)


def test_lengths_that_the_encoder_cannot_take_are_refused(encoder: Encoder, tokenizer: TextTokenizer) -> None:
    with pytest.raises(RecipeError, match=r"pretraining\.max_length: expected 3 to 128 .* found 129"):
        check_pretraining(PretrainingSection(max_length=129), tokenizer, encoder.config)
    for allowed in (3, 128):
        check_pretraining(PretrainingSection(max_length=allowed), tokenizer, encoder.config)


def test_the_corpus_is_made_of_task_texts_and_given_files(
    tiny_recipe: dict[str, Any], tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    recipe = make_recipe(tiny_recipe)
    own = tmp_path / "own.txt"
    own.write_text("a film\nthe soup\n", "utf-8")
    sizes, hashes = [], []
    for text in ((), (str(own),)):
        section = PretrainingSection(max_length=128, text=text)
        train, held_out, files = load_corpus(recipe, section, tokenizer)
        sizes.append(train.texts + held_out.texts)
        hashes.append(files)
    assert sizes[1] == sizes[0] + 2
    assert hashes[1] == {**hashes[0], str(own): sha256(own)}
    assert len(hashes[0]) == 3  # a training file per task


def test_the_trainer_follows_the_section(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["pretraining"] = {"epochs": 3, "steps_per_epoch": 4, "batch_size": 5, "learning_rate": 7e-4}
    trainer = PretrainingJob(make_recipe(tiny_recipe), RunFolder(tmp_path / "run")).prepare().trainer
    assert trainer.total_steps == 12 and trainer.sampler.epoch(1) == [("mlm",)] * 4
    [batch] = trainer.feed(("mlm",), {"mlm": 0})
    assert batch.sequences == 5
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {7e-4} and rates(trainer.optimizer)
