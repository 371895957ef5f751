"""An encoder alone: told apart from runs, opened without tasks, with the usual length of its texts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import palbert
from palbert.build.alone import is_encoder, open_encoder, usual_length
from palbert.build.machine import Machine
from palbert.errors import DataError, EncoderError


def test_encoders_are_told_apart_from_runs(tiny_encoder: Path, trained: Path, tmp_path: Path) -> None:
    assert is_encoder("minilm") and is_encoder(tiny_encoder)
    assert not is_encoder(trained) and not is_encoder(trained / "checkpoints" / "best") and not is_encoder(tmp_path)


def test_an_encoder_has_no_tasks(tiny_encoder: Path) -> None:
    opened = open_encoder(str(tiny_encoder), Machine.of("cpu", "fp32"))
    assert opened.tasks == {} and opened.description == {"max_length": 128}
    with pytest.raises(DataError, match="Unknown task 'sst'"):
        palbert.load(tiny_encoder, device="cpu").predict("sst", ["a"])


@pytest.mark.parametrize(
    ("sentence", "tokenizer", "length"),
    [(None, None, 128), (None, 64, 64), (32, 64, 32), (512, 64, 128), (None, 10**30, 128), (True, 64, 64)],
)
def test_the_length_is_the_first_that_the_folder_gives_up_to_the_positions(
    sentence: int | None, tokenizer: int | None, length: int, tiny_encoder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": sentence}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": tokenizer}))
    assert usual_length(folder, most=128) == length


@pytest.mark.parametrize("length", [1, 2])
def test_lengths_without_room_for_text_are_refused(length: int, tiny_encoder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
    with pytest.raises(EncoderError, match=f"texts of {length} tokens leave no room between 2 special tokens"):
        open_encoder(str(folder), Machine.of("cpu", "fp32"))


def test_a_damaged_file_of_lengths_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    (folder / "sentence_bert_config.json").write_text("[")
    with pytest.raises(EncoderError, match=r"sentence_bert_config\.json: not valid JSON"):
        usual_length(folder, most=128)
