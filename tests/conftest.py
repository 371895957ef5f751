"""Fixtures of all tests: a tiny random encoder, small recipes, and a separate cache."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # several test processes share the cores
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run on the CPU, to be tested; Triton reads it on import

from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from palbert.data.tokenizer import TextTokenizer

SAMPLES = Path(__file__).parents[1] / "src" / "palbert" / "data" / "samples"


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["PALBERT_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a BERT of two layers and 32 dimensions, with a word-level vocabulary of the sample rows."""
    folder = tmp_path_factory.mktemp("tiny-bert")
    files = [SAMPLES / f"{task}-{split}.tsv" for task in ("sst", "quora", "sts") for split in ("train", "dev")]
    words = sorted({word for file in files for word in file.read_text("utf-8").lower().split()})
    vocabulary = {token: number for number, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "model_type": "bert",
        "vocab_size": len(vocabulary),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file(_bert_weights(config), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def tiny_modernbert(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a ModernBERT of four layers and 32 dimensions whose windows are shorter than most texts."""
    from palbert.model.encoder import Encoder
    from palbert.model.families import export, read_config

    folder = tmp_path_factory.mktemp("tiny-modernbert")
    shutil.copyfile(tiny_encoder / "tokenizer.json", folder / "tokenizer.json")
    config = {
        "model_type": "modernbert",
        "vocab_size": json.loads((tiny_encoder / "config.json").read_text())["vocab_size"],
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 128,
        "local_attention": 6,
        "initializer_range": 0.1,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = Encoder(read_config(config, pooler=False, where="config.json"))
    save_file(export(encoder), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def tokenizer(tiny_encoder: Path) -> TextTokenizer:
    """Return the tiny encoder's tokenizer."""
    return TextTokenizer.from_folder(tiny_encoder)


def _bert_weights(config: dict[str, Any]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden, inner = config["hidden_size"], config["intermediate_size"]

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.1

    weights = {
        "embeddings.word_embeddings.weight": matrix(config["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": matrix(config["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": matrix(config["type_vocab_size"], hidden),
        "pooler.dense.weight": matrix(hidden, hidden),
        "pooler.dense.bias": torch.zeros(hidden),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        for name, shape in {
            "attention.self.query": (hidden, hidden),
            "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (inner, hidden),
            "output.dense": (hidden, inner),
        }.items():
            weights[f"{prefix}.{name}.weight"] = matrix(*shape)
            weights[f"{prefix}.{name}.bias"] = torch.zeros(shape[0])
        norms += [f"{prefix}.attention.output.LayerNorm", f"{prefix}.output.LayerNorm"]
    for norm in norms:
        weights[f"{norm}.weight"] = torch.ones(hidden)
        weights[f"{norm}.bias"] = torch.zeros(hidden)
    return weights


@pytest.fixture
def tiny_recipe(tiny_encoder: Path) -> dict[str, Any]:
    """Return the values of a recipe that trains in a second: three tasks, sample data, tiny encoder."""
    return {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder)},
        "tasks": {"sst": {}, "quora": {}, "sts": {}},
        "training": {"epochs": 2, "steps_per_epoch": 6, "batch_size": 8, "log_every": 2},
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }
