"""The tokenizer of an encoder: it must fit the encoder's table of words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import palbert
from palbert.build.tokenizer import load_tokenizer
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import EncoderError
from palbert.model.pretrained import load_encoder


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    """Return the tiny encoder with a tokenizer that has one token too many."""
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["<new>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_a_tokenizer_that_fits_is_loaded(tiny_encoder: Path) -> None:
    tokenizer = load_tokenizer(tiny_encoder)
    assert tokenizer.sha256 == TextTokenizer.from_folder(tiny_encoder).sha256
    assert tokenizer.rows == load_encoder(tiny_encoder).config.vocabulary_size


def test_ids_beyond_the_table_of_words_are_refused_with_both_numbers(folder: Path) -> None:
    words = load_encoder(folder).config.vocabulary_size
    with pytest.raises(EncoderError, match=f"ids up to {words:,}, and the encoder has words up to {words - 1:,}"):
        load_tokenizer(folder)


def test_no_command_starts_with_such_a_tokenizer(folder: Path, tiny_recipe: dict[str, object], tmp_path: Path) -> None:
    recipe = {**tiny_recipe, "encoder": {"name": str(folder)}}
    for start in (
        lambda: palbert.train(recipe, out=tmp_path / "run"),
        lambda: palbert.check_data(recipe),
        lambda: palbert.load(folder, device="cpu"),
    ):
        with pytest.raises(EncoderError, match="belong to different encoders"):
            start()
    assert not (tmp_path / "run").exists()
