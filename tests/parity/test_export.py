"""Exported encoders, loaded by transformers and sentence-transformers: the vectors of palbert, for every family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import palbert
from palbert.model.encoder import Encoder
from palbert.model.families import export, read_config
from palbert.registry import FAMILIES

pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")


def random_folder(family: str, tiny_encoder: Path, folder: Path) -> Path:
    """Write a random encoder of a family with the tiny tokenizer, whose padding token gets the id that MPNet fixes."""
    words = json.loads((tiny_encoder / "config.json").read_text())["vocab_size"]
    config: dict[str, Any] = {
        "model_type": family, "vocab_size": words, "max_position_embeddings": 66, "pad_token_id": 1,
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
        "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "embedding_size": 16, "type_vocab_size": 2,
        "local_attention": 6, "initializer_range": 0.2, "layer_norm_eps": 1e-5,
    }  # fmt: skip
    folder.mkdir()
    tokenizer = json.loads((tiny_encoder / "tokenizer.json").read_text("utf-8"))
    tokenizer["model"]["vocab"] |= {"[PAD]": 1, "[UNK]": 0}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    save_file(export(Encoder(read_config(config, pooler=False, where="config.json"))), folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("family", sorted(FAMILIES.paths))
def test_both_libraries_give_the_vectors_of_palbert(family: str, tiny_encoder: Path, tmp_path: Path) -> None:
    source = random_folder(family, tiny_encoder, tmp_path / "source")
    for form in ("transformers", "sentence-transformers"):
        for pooling in ("mean", "cls"):
            done = palbert.export(
                source,
                out=tmp_path / form / pooling,
                to=form,
                pooling=pooling,  # type: ignore[arg-type]
            )
            assert done.difference is not None and done.difference <= 1e-5
    again = palbert.load(tmp_path / "transformers" / "mean", device="cpu").embed(["the plot is dull", "rain"])
    assert abs(again - palbert.load(source, device="cpu").embed(["the plot is dull", "rain"])).max() < 1e-6
