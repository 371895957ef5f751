"""Texts to vectors on the CPU, tokenizing included: palbert in fp32 and int8, transformers, sentence-transformers.

All use the same encoder and the same texts, with lengths as in real pairs, and average the states of a text's tokens.
transformers pads batches of 32 rows in the given order, or sorted by length; sentence-transformers sorts by itself.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from measuring import machine_facts, write
from sentence_transformers import SentenceTransformer

from palbert.build import Machine, build_inference, build_model, prepare_for_inference
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import load_encoder, resolve_encoder
from palbert.recipe.load import make_recipe
from palbert.recipe.paths import SAMPLES_FOLDER
from palbert.runtime.precision import has_int8

BATCH, LONGEST = 32, 128
Embed = Callable[[list[str]], np.ndarray[Any, Any]]


def make_texts(rows: int) -> list[str]:
    """Make texts from words of the samples, with lengths as in real pairs: lognormal(3.25, 0.45), at most 128."""
    lines = (SAMPLES_FOLDER / "sst-train.tsv").read_text("utf-8").splitlines()[1:]
    words = [word for line in lines for word in line.split("\t")[1].split()]
    draw = random.Random(0)
    lengths = [min(max(int(draw.lognormvariate(3.25, 0.45)), 3), LONGEST) for _ in range(rows)]
    starts = [draw.randrange(len(words) - LONGEST) for _ in lengths]
    return [" ".join(words[start : start + length]) for start, length in zip(starts, lengths, strict=True)]


def with_palbert(folder: Path, *, int8: bool) -> Embed:
    """Return palbert's inference: sorted by length, packed, without padding."""
    task = make_recipe({"data": "samples", "encoder": str(folder), "tasks": {"sst": {"pooling": "mean"}}}).tasks["sst"]
    model = build_model({"sst": task}, load_encoder(folder))
    machine = Machine(torch.device("cpu"), "int8" if int8 else "fp32")
    prepare_for_inference(model, machine)
    model.heads["sst"] = torch.nn.Identity()  # the vectors are the result
    task = task.model_copy(update={"classes": tuple(map(str, range(model.encoder.config.hidden_size)))})
    tokenizer = TextTokenizer.from_folder(folder)
    inference = build_inference(model, tokenizer=tokenizer, machine=machine)
    return lambda texts: inference.outputs(task, (tokenizer(texts),)).numpy()


def with_transformers(folder: Path, attention: str, *, by_length: bool) -> Embed:
    """Return the usual handwritten loop over padded batches."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(
        folder, attn_implementation=attention, add_pooling_layer=False
    ).eval()

    @torch.inference_mode()
    def embed(texts: list[str]) -> np.ndarray[Any, Any]:
        order = np.argsort([-len(text) for text in texts]) if by_length else np.arange(len(texts))
        vectors = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
        for start in range(0, len(texts), BATCH):
            chosen = order[start : start + BATCH]
            inputs = tokenizer(
                [texts[row] for row in chosen], padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
            )
            mask = inputs["attention_mask"][:, :, None]
            states = model(**inputs).last_hidden_state * mask
            vectors[chosen] = (states.sum(1) / mask.sum(1)).numpy()
        return vectors

    return embed


def with_sentence_transformers(folder: Path) -> Embed:
    """Return its `encode`, without the normalisation that the encoder's folder configures."""
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = LONGEST
    plain = SentenceTransformer(modules=list(model)[:2], device="cpu")  # the encoder and the mean
    return lambda texts: plain.encode(texts, batch_size=BATCH, show_progress_bar=False)


def over_palbert(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Divide by palbert's time in the same round, so that changes of the machine's load between rounds cancel out."""
    own = seconds["palbert fp32"]
    return {
        name: statistics.median(value / base for value, base in zip(values, own, strict=True))
        for name, values in seconds.items()
    }


def main() -> None:
    """Measure all in turn, so that a busy machine affects all alike; print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = resolve_encoder(arguments.encoder)
    texts = make_texts(arguments.rows)
    ways: dict[str, Embed] = {"palbert fp32": with_palbert(folder, int8=False)}
    if has_int8():
        ways["palbert int8"] = with_palbert(folder, int8=True)
    for attention in ("sdpa", "eager"):
        ways[f"transformers {attention}"] = with_transformers(folder, attention, by_length=False)
        ways[f"transformers {attention}, sorted"] = with_transformers(folder, attention, by_length=True)
    ways["sentence-transformers"] = with_sentence_transformers(folder)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    vectors = {name: embed(texts[:64]) for name, embed in ways.items()}  # a warm-up
    for _ in range(arguments.rounds):
        for name, embed in ways.items():
            start, busy = time.perf_counter(), time.process_time()
            embed(texts)
            seconds[name].append(time.perf_counter() - start)
            processor[name].append(time.process_time() - busy)
    exact = vectors["palbert fp32"]
    rates = {name: arguments.rows / statistics.median(values) for name, values in seconds.items()}
    ratios, busy_ratios = over_palbert(seconds), over_palbert(processor)
    cosines = {
        name: float(((found * exact).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(exact, axis=1)).mean())
        for name, found in vectors.items()
    }
    print(f"{'':28}{'rows/s':>8}{'clock':>9}{'processor':>11}{'cosine':>9}")
    for name in ways:
        shown = f"{rates[name]:8.1f}{ratios[name]:7.2f} ×{busy_ratios[name]:9.2f} ×{cosines[name]:9.5f}"
        print(f"{name:28}{shown}")
    facts = {
        "benchmark": "inference_cpu",
        "encoder": Path(arguments.encoder).name,
        "rows": arguments.rows,
        "rows_per_second": rates,
        "time_over_palbert_fp32": ratios,
        "processor_time_over_palbert_fp32": busy_ratios,
        "cosine_with_palbert_fp32": cosines,
        "load": os.getloadavg()[0],
        **machine_facts(
            torch.device("cpu"),
            **{name: importlib.metadata.version(name) for name in ("transformers", "sentence-transformers")},
        ),
    }
    write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
