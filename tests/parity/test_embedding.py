"""Vectors of texts, next to those of sentence-transformers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import palbert

sentence_transformers = pytest.importorskip("sentence_transformers")

TEXTS = ["The plot is dull .", "", "rain and soup and a guitar", "never " * 300, "the", "A quiet little triumph ."]
TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def folder_of(encoder: Path, target: Path, **settings: int) -> Path:
    """Copy an encoder folder; write the settings of its tokenizer and of sentence-transformers."""
    shutil.copytree(encoder, target)
    names = {"tokenizer_class": "PreTrainedTokenizerFast", **TOKENS}
    (target / "tokenizer_config.json").write_text(json.dumps({**names, "model_max_length": 100}))
    if settings:
        (target / "sentence_bert_config.json").write_text(json.dumps(settings))
        kinds = {"": "Transformer", "1_Pooling": "Pooling"}
        modules = [
            {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
            for number, (place, kind) in enumerate(kinds.items())
        ]
        (target / "modules.json").write_text(json.dumps(modules))
        (target / "1_Pooling").mkdir()
        pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
        (target / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return target


@pytest.mark.parametrize("settings", [{}, {"max_seq_length": 20}, {"max_seq_length": 128}])
@pytest.mark.parametrize("family", ["tiny_encoder", "tiny_modernbert"])
def test_vectors_equal_those_of_sentence_transformers(
    family: str, settings: dict[str, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = folder_of(request.getfixturevalue(family), tmp_path / "encoder", **settings)
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    ours = palbert.load(folder, device="cpu", precision="fp32")
    assert ours.embedder.max_length == theirs.max_seq_length == settings.get("max_seq_length", 100)
    np.testing.assert_allclose(ours.embed(TEXTS), theirs.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(
        ours.embed(TEXTS, normalise=True), theirs.encode(TEXTS, normalize_embeddings=True), atol=1e-5
    )


def test_the_encoder_of_a_package_gives_the_vectors_of_sentence_transformers() -> None:
    from palbert.errors import EncoderError
    from palbert.model.pretrained import resolve_encoder

    try:
        folder = resolve_encoder("minilm")
    except EncoderError:
        pytest.skip("minilm is not installed")
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")  # it normalises
    ours = palbert.load("minilm", device="cpu", precision="fp32")
    np.testing.assert_allclose(ours.embed(TEXTS, normalise=True), theirs.encode(TEXTS), atol=1e-5)
