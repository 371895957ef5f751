"""Material: a tiny encoder, rows and a recipe for jobs, and hashes of what they end with."""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WORDS = ("good", "bad", "fine", "awful", "great", "poor", "dull", "bright", "one", "two", "three", "four", "five")
Results = dict[str, str]
"""Hashes of what a job has to end with, by name."""


def write_encoder(folder: Path) -> Path:
    """Write a BERT of one layer and eight dimensions with a vocabulary of a few words."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    from palbert.model.encoder import Encoder
    from palbert.model.families import export, read_config

    folder.mkdir()
    vocabulary = {token: number for number, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "model_type": "bert",
        "vocab_size": len(vocabulary),
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
        "initializer_range": 0.1,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    save_file(export(Encoder(read_config(config, pooler=True, where="config.json"))), folder / "model.safetensors")
    return folder


def write_rows(path: Path, rows: int, seed: int) -> Path:
    """Write rows with a text, a class and a number."""
    chance = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "label", "score"])
        for _ in range(rows):
            words = chance.choices(WORDS, k=chance.randint(1, 6))
            writer.writerow([" ".join(words), "yes" if words[0] < "h" else "no", len(words)])
    return path


def recipe(root: Path) -> dict[str, Any]:
    """Return a recipe with a class and a number, whose checkpoints have every file that a checkpoint may have."""
    both = {"kind": "single", "text": "text", "max_length": 16, "train": str(root / "train.csv")}
    both["dev"] = str(root / "dev.csv")
    return {
        "seed": 1,
        "encoder": {"name": str(root / "encoder")},
        "tasks": {"score": {**both, "target": "number", "range": [0, 6], "label": "score"}},
        "training": {
            "epochs": 2,
            "steps_per_epoch": 2,
            "batch_size": 4,
            "log_every": 1,
            "save_every": 1,
            "average": {"name": "ema", "decay": 0.9},
            "balance": "uncertainty",
        },
        "optimizer": {"learning_rate": 1e-2},
        "run": {"device": "cpu", "tensorboard": False},
    }


def write_inputs(root: Path) -> None:
    """Write encoder and data."""
    write_encoder(root / "encoder")
    write_rows(root / "train.csv", 24, seed=1)
    write_rows(root / "dev.csv", 8, seed=2)


def digest(content: object) -> str:
    """Hash a value or the content of a file."""
    if isinstance(content, Path):
        return hashlib.sha256(content.read_bytes()).hexdigest()[:16]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def files(folder: Path, names: Iterable[str] = ("**/*",)) -> Results:
    """Hash the files of a folder that have one of the names, without what a killed process left unfinished."""
    found = {path.relative_to(folder) for name in names for path in folder.glob(name) if path.is_file()}
    return {
        str(path): digest(folder / path) for path in sorted(found) if not any(part[0] == "." for part in path.parts)
    }


def without_times(value: Any) -> Any:
    """Return JSON without the entries that measure time."""
    timed = {"seconds", "elapsed", "waited", "tokens_per_second", "duration"}
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in timed}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def records(path: Path) -> Any:
    """Read JSON lines without times."""
    return [without_times(json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def of_run(run: Path) -> Results:
    """Hash what a run ends with: weights, scores, predictions and the log."""
    found = files(run, ["checkpoints/*/*.safetensors", "predictions/*"])
    found["report.json"] = digest(without_times(json.loads((run / "report.json").read_text("utf-8"))))
    found["metrics.jsonl"] = digest(records(run / "metrics.jsonl"))
    page = (run / "report.html").read_text("utf-8")
    assert page.startswith("<!") and page.rstrip().endswith("</html>"), "report.html is not whole"
    return found


def columns(path: Path) -> dict[str, Any]:
    """Read a file of any kind with palbert."""
    from palbert.readers import read_chunks

    return {name: cells for chunk in read_chunks(str(path)) for name, cells in chunk.columns.items()}
