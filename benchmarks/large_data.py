"""A set several times larger than the memory: generated, read into the token cache, trained on, killed and resumed.

Each step is a process of its own under the limit. What is measured: rows per second of the first reading, by the clock
and per second of one core, and the memory that each process takes for itself.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine_facts, write
from memory_limit import PeakMemory, run_limited
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

KINDS = ("parquet", "csv", "jsonl")
"""The kinds of the shards, in turn."""
WORDS, WORDS_PER_ROW, CLASSES = 20_000, 20, 5
PART = 20_000
"""Rows that are generated at a time."""
DEV_ROWS = 2_000


def make_words() -> list[str]:
    """Return made-up words; the first are the most frequent ones."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "on")]
    drawn = np.random.default_rng(0).integers(0, len(syllables), (2 * WORDS, 4))
    words = ("".join(syllables[each] for each in row[: 2 + number % 3]) for number, row in enumerate(drawn.tolist()))
    return list(dict.fromkeys(words))[:WORDS]


def make_encoder(folder: Path, size: int = 128) -> None:
    """Write a small BERT with random weights and a WordPiece vocabulary that splits one word in ten."""
    from safetensors.torch import save_file

    from palbert.model.encoder import Encoder
    from palbert.model.families import export, read_config

    folder.mkdir(parents=True)
    words = make_words()
    pieces = [f"##{a}" for a in "abcdefghijklmnopqrstuvwxyz"] + list("abcdefghijklmnopqrstuvwxyz")
    known = [word for number, word in enumerate(words) if number % 10]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *known]
    tokenizer = Tokenizer(models.WordPiece({name: n for n, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "bert", "vocab_size": len(names), "hidden_size": size, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 2, "intermediate_size": 4 * size, "max_position_embeddings": 128}
    config |= {"type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    encoder = Encoder(read_config(config, pooler=True, where="config.json"))
    save_file(export(encoder), folder / "model.safetensors")


def make_rows(rows: int, seed: int) -> Iterator[tuple[list[str], list[int]]]:
    """Yield texts of made-up words with labels, some at a time."""
    generator, words = np.random.default_rng(seed), np.array(make_words())
    for first in range(0, rows, PART):
        count = min(PART, rows - first)
        lengths = np.clip(generator.lognormal(np.log(WORDS_PER_ROW), 0.5, count), 3, 120).astype(int)
        drawn = words[(len(words) * generator.random(lengths.sum()) ** 3).astype(int)]
        texts = [" ".join(each) for each in np.split(drawn, np.cumsum(lengths)[:-1])]
        yield texts, generator.integers(0, CLASSES, count).tolist()


def write_shard(path: Path, rows: int, seed: int) -> None:
    """Write one file of the set."""
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        schema = pyarrow.schema({"text": pyarrow.string(), "label": pyarrow.int64()})
        with pyarrow.parquet.ParquetWriter(path, schema) as writer:
            for texts, labels in make_rows(rows, seed):
                writer.write_table(pyarrow.table({"text": texts, "label": labels}, schema))
        return
    with path.open("w", encoding="utf-8", newline="") as stream:
        if path.suffix == ".csv":
            csv.writer(stream).writerow(["text", "label"])
        for texts, labels in make_rows(rows, seed):
            pairs = zip(texts, labels, strict=True)
            if path.suffix == ".csv":
                csv.writer(stream).writerows(pairs)
            else:
                stream.writelines(json.dumps({"text": text, "label": label}) + "\n" for text, label in pairs)


def generate(folder: Path, rows: int, shards: int) -> None:
    """Write an encoder, the set and dev rows."""
    make_encoder(folder / "encoder")
    for number in range(shards):
        count = rows // shards + (number < rows % shards)
        write_shard(folder / f"part-{number:03}.{KINDS[number % len(KINDS)]}", count, seed=number + 1)
    write_shard(folder / "dev.csv", DEV_ROWS, seed=0)


def recipe(folder: Path) -> dict[str, Any]:
    """Return the recipe: two epochs of a few steps over the whole set."""
    task: dict[str, Any] = {
        "kind": "single",
        "text": "text",
        "label": "label",
        "target": "classes",
        "dev": str(folder / "dev.csv"),
    }
    task |= {"classes": [str(each) for each in range(CLASSES)], "train": str(folder / "part-*")}
    training = {"epochs": 2, "steps_per_epoch": 60, "batch_size": 32, "save_every": 20}
    return {"encoder": str(folder / "encoder"), "tasks": {"large": task}, "training": training}


def build(folder: Path) -> dict[str, Any]:
    """Read the set into the token cache."""
    from palbert.build.data import load_training_sets
    from palbert.data.tokenizer import TextTokenizer
    from palbert.recipe.load import make_recipe

    made = make_recipe(recipe(folder))
    start, before = time.perf_counter(), os.times()
    [found] = load_training_sets(made, TextTokenizer.from_folder(folder / "encoder")).values()
    after = os.times()
    core = sum(after[:4]) - sum(before[:4])
    tokens = found.rows.tokens[0]
    return {
        "rows": len(found),
        "tokens": len(tokens.values),
        "seconds": time.perf_counter() - start,
        "core_seconds": core,
        "cache_bytes": sum(path.stat().st_size for path in (folder / "cache").rglob("*.npy")),
    }


def train(folder: Path, run: str, *, resume: bool) -> dict[str, Any]:
    """Train on the set."""
    import palbert

    start = time.perf_counter()
    palbert.train(recipe(folder), out=folder / run, resume=resume)
    content = (folder / run / "checkpoints" / "last" / "model.safetensors").read_bytes()
    return {"seconds": time.perf_counter() - start, "weights": hashlib.sha256(content).hexdigest()}


def shuffle(rows: int) -> dict[str, Any]:
    """Draw all rows of an epoch; count how often each one came."""
    from palbert.data.streams import Stream

    stream, drawn = Stream("large", rows=rows, batch_size=PART, seed=0), np.zeros(rows, dtype=np.int32)
    for start in range(0, rows - rows % PART, PART):
        np.add.at(drawn, stream.batch(start), 1)
    rest = Stream("large", rows=rows, batch_size=rows % PART, seed=0) if rows % PART else None
    if rest:
        np.add.at(drawn, rest.batch(rows - rows % PART), 1)
    return {"drawn_once": int((drawn == 1).sum())}


def child(step: str, folder: Path) -> None:
    """Do one step in this process, and write what it took."""
    with PeakMemory() as peak:
        facts = {
            "build": lambda: build(folder),
            "train": lambda: train(folder, "straight", resume=False),
            "killed": lambda: train(folder, "resumed", resume=False),
            "resumed": lambda: train(folder, "resumed", resume=True),
            "shuffle": lambda: shuffle(json.loads((folder / "build.json").read_text())["rows"]),
        }[step]()
    (folder / f"{step}.json").write_text(json.dumps({**facts, "own_bytes": peak.bytes}))


def kill_when_saved(folder: Path) -> None:
    """Start to train, and kill the process as soon as it has saved a checkpoint."""
    command = [sys.executable, __file__, "--child", "killed", "--folder", str(folder)]
    started = subprocess.Popen(command, env={**os.environ, "PALBERT_CACHE": str(folder / "cache")})
    while started.poll() is None and not (folder / "resumed" / "checkpoints" / "last").exists():
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    started.wait()


def measure(folder: Path, rows: int, shards: int, limit: int) -> dict[str, Any]:
    """Do all steps under the limit."""
    if not (folder / "dev.csv").is_file():  # written last
        shutil.rmtree(folder, ignore_errors=True)
        generate(folder, rows, shards)
    os.environ["PALBERT_CACHE"] = str(folder / "cache")
    os.environ["PALBERT_PROGRESS"] = "off"
    steps: dict[str, Any] = {}
    means = ""
    for step in ("build", "shuffle", "train", "resumed"):
        if step == "resumed":
            kill_when_saved(folder)
        means = run_limited([sys.executable, __file__, "--child", step, "--folder", str(folder)], limit)
        steps[step] = json.loads((folder / f"{step}.json").read_text())
    assert steps["build"]["rows"] == rows, "the folder holds a set of this size"
    assert steps["train"]["weights"] == steps["resumed"]["weights"], "a resumed run ends with the same weights"
    assert steps["shuffle"]["drawn_once"] == rows, "each row comes once in an epoch"
    return {
        "limit": limit,
        "limited_by": means,
        "shards": shards,
        "shard_bytes": sum(path.stat().st_size for path in folder.glob("part-*")),
        "steps": steps,
    }


def main(given: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--limit", type=float, default=0.75, help="memory of each process in GiB")
    parser.add_argument(
        "--folder", type=Path, default=Path("large-data"), help="a set in it is used; removed at the end"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    arguments = parser.parse_args(given)
    folder = arguments.folder.resolve()
    if arguments.child:
        child(arguments.child, folder)
        return
    found = measure(folder, arguments.rows, arguments.shards, int(arguments.limit * 2**30))
    shutil.rmtree(folder)
    facts = {"benchmark": "large_data", **machine_facts(torch.device("cpu")), "cores": os.cpu_count(), **found}
    first = found["steps"]["build"]
    by_clock, by_core = (first["rows"] / first[key] for key in ("seconds", "core_seconds"))
    print(f"{by_clock:,.0f} rows/s by the clock, {by_core:,.0f} rows per second of one core")
    for step, own in found["steps"].items():
        print(f"{step:10}{own['own_bytes'] / 2**20:8.0f} MiB of its own, limit {found['limit'] / 2**20:.0f} MiB")
    write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
