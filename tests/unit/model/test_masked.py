"""The masked-word head: loaded if present, otherwise new, and saved with its encoder."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from palbert.errors import EncoderError
from palbert.model.masked import MaskedHead, load_masked, save_masked
from palbert.model.pretrained import load_encoder
from palbert.runtime import files
from palbert.runtime.checksums import record_folder
from palbert.runtime.durable import sync_file


@pytest.fixture
def saved(tiny_encoder: Path, tmp_path: Path) -> Path:
    """Save the tiny encoder with a new head."""
    (tmp_path / "saved").mkdir()
    save_masked(load_masked(tiny_encoder), tmp_path / "saved", source=tiny_encoder)
    return tmp_path / "saved"


def change(folder: Path, **settings: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def test_a_missing_head_is_initialised_and_reported(tiny_encoder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="palbert"):
        head = load_masked(tiny_encoder).head
    assert f"{tiny_encoder} has no masked-word head: a new one" in caplog.text
    assert head.bias is not None and not head.bias.any()
    assert head.dense.weight.std() > 0.01


def test_a_saved_head_is_loaded_without_a_log_message(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="palbert"):
        first, second = load_masked(saved), load_masked(saved)
    assert caplog.text == ""
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])


def test_the_encoder_of_a_saved_folder_equals_the_saved_one(saved: Path, tiny_encoder: Path) -> None:
    one, other = load_encoder(tiny_encoder), load_encoder(saved)
    assert one.config == other.config and one.config.pooler
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
    assert (saved / "tokenizer.json").read_bytes() == (tiny_encoder / "tokenizer.json").read_bytes()


def test_weights_that_are_being_saved_are_not_taken_for_abandoned(
    saved: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer looks after they are written, and before they have their name."""

    def looked_at(file: Path) -> None:
        files.remove_abandoned(file.parent)
        sync_file(file)

    monkeypatch.setattr(files, "SETTLED", 0)
    monkeypatch.setattr("palbert.runtime.files.sync_file", looked_at)
    save_masked(load_masked(tiny_encoder), saved, source=tiny_encoder)
    assert (saved / "model.safetensors").stat().st_mode == (saved / "config.json").stat().st_mode


def test_saved_weights_do_not_take_the_number_format_of_the_source(
    saved: Path, tmp_path: Path, tiny_encoder: Path
) -> None:
    change(saved, dtype="float16", torch_dtype="float16")
    record_folder(saved)
    (tmp_path / "again").mkdir()
    save_masked(load_masked(saved), tmp_path / "again", source=saved)
    settings = json.loads((tmp_path / "again" / "config.json").read_text())
    assert settings == json.loads((tiny_encoder / "config.json").read_text())


def test_old_names_of_the_norm_of_the_head_are_accepted(saved: Path) -> None:
    expected = load_masked(saved).head.state_dict()
    weights = load_file(saved / "model.safetensors")
    norm = "cls.predictions.transform.LayerNorm."
    weights[norm + "gamma"], weights[norm + "beta"] = weights.pop(norm + "weight"), weights.pop(norm + "bias")
    save_file(weights, saved / "model.safetensors")
    record_folder(saved)
    for name, tensor in load_masked(saved).head.state_dict().items():
        assert torch.equal(tensor, expected[name])


def test_an_incomplete_head_is_refused(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    del weights["cls.predictions.bias"]
    weights["cls.predictions.transform.dense.bias"] = torch.zeros(3)
    save_file(weights, saved / "model.safetensors")
    record_folder(saved)
    with pytest.raises(EncoderError, match=r"missing: cls\.predictions\.bias; .*dense\.bias is \(3,\) and not \(32,\)"):
        load_masked(saved)


def test_an_untied_decoder_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "untied"))
    change(folder, tie_word_embeddings=False)
    with pytest.raises(EncoderError, match=r"tied to the word embeddings, found tie_word_embeddings = false"):
        load_masked(folder)


def test_an_unknown_activation_of_the_head_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(EncoderError, match="activation 'mish' of a head"):
        MaskedHead(load_encoder(tiny_encoder).config, activation="mish")


def test_the_decoder_is_tied_to_the_word_embeddings(tiny_encoder: Path) -> None:
    model = load_masked(tiny_encoder)
    config = model.encoder.config
    assert not any("decoder" in name for name in model.state_dict())
    hidden = torch.randn(3, config.hidden_size)
    scores = model.head(hidden, model.encoder.embeddings.word.weight)
    assert scores.shape == (3, config.vocabulary_size)
    scores.sum().backward()
    assert model.encoder.embeddings.word.weight.grad is not None
