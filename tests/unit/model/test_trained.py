"""Trained encoders: a run, or one of its checkpoints, read as the folder of an encoder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from palbert.build.checkpoint import open_checkpoint
from palbert.build.machine import Machine
from palbert.errors import CheckpointError, EncoderError
from palbert.model.families import plain_names
from palbert.model.families.bert import BERT
from palbert.model.pretrained import load_encoder, read_settings, read_weights, resolve_encoder, weights_sha256
from palbert.model.trained import encoder_in, is_checkpoint
from palbert.runtime.checksums import record_folder
from palbert.runtime.files import sha256


def test_a_run_stands_for_its_best_checkpoint_and_other_folders_for_themselves(
    trained: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    best = trained / "checkpoints" / "best"
    assert resolve_encoder(str(trained)) == encoder_in(trained) == best
    assert resolve_encoder(str(trained / "checkpoints" / "last")) == trained / "checkpoints" / "last"
    assert encoder_in(tiny_encoder) == tiny_encoder and encoder_in(tmp_path) == tmp_path
    assert is_checkpoint(best) and not is_checkpoint(tiny_encoder) and not is_checkpoint(trained)


@pytest.mark.parametrize("name", ["best", "last"])
def test_the_encoder_is_loaded_as_it_was_trained(name: str, trained: Path) -> None:
    folder = trained / "checkpoints" / name
    opened = open_checkpoint(folder, Machine.of("cpu", "fp32")).model.encoder
    loaded = load_encoder(folder)
    assert loaded.config == opened.config
    assert loaded.state_dict().keys() == opened.state_dict().keys()
    for key, value in opened.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key
    assert load_encoder(folder, dropout=0.3).config.dropout == 0.3
    assert weights_sha256(folder) == sha256(folder / "model.safetensors")


def test_weights_have_the_names_of_the_family_and_no_heads(trained: Path, tiny_encoder: Path) -> None:
    found = read_weights(trained / "checkpoints" / "best")
    assert plain_names(BERT, found, where="").keys() == load_file(tiny_encoder / "model.safetensors").keys()
    settings = read_settings(trained / "checkpoints" / "best")
    given = json.loads((tiny_encoder / "config.json").read_text())
    for key in ("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings"):
        assert settings[key] == given[key]


def test_a_run_without_a_checkpoint_and_damaged_ones_are_refused(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "begun" / "checkpoints").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        resolve_encoder(str(tmp_path / "begun"))
    copy = Path(shutil.copytree(trained / "checkpoints" / "best", tmp_path / "copy"))
    (copy / "palbert.sha256").unlink()  # as in earlier versions
    described = json.loads((copy / "palbert.json").read_text("utf-8"))
    (copy / "palbert.json").write_text(json.dumps({**described, "tasks": {}}))
    with pytest.raises(EncoderError, match="the pretraining of this encoder is not finished"):
        load_encoder(copy)
    other = {**described, "encoder": {**described["encoder"], "layers": 3}}
    (copy / "palbert.json").write_text(json.dumps(other))
    with pytest.raises(EncoderError, match=r"the weights do not fit palbert\.json"):
        load_encoder(copy)
    (copy / "palbert.json").write_text("{}")
    with pytest.raises(EncoderError, match="damaged"):
        load_encoder(copy)
    (copy / "palbert.json").write_text(json.dumps(described))
    (copy / "model.safetensors").write_bytes(b"no")
    with pytest.raises(EncoderError, match="cannot be read as weights"):
        load_encoder(copy)


def test_weights_that_are_no_floating_point_numbers_are_refused(trained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained / "checkpoints" / "best", tmp_path / "copy"))
    file = copy / "model.safetensors"
    save_file({name: value.to(torch.int8) for name, value in load_file(file).items()}, file)
    record_folder(copy)
    with pytest.raises(EncoderError, match=r"model\.safetensors: .*int8"):
        load_encoder(copy)
