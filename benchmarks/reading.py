"""Reading and tokenizing pairs: palbert the first time and from its cache, against a plain loop over rows."""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import tempfile
import time
from pathlib import Path

import torch
from measuring import machine_facts, write
from tokenizers import Tokenizer

from palbert.data.dataset import load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import make_recipe
from palbert.recipe.paths import SAMPLES_FOLDER
from palbert.tasks.sets import files_of

ROWS = 404_000
PLAIN_ROWS = 20_000
"""The plain loop is measured on fewer rows, and its time is scaled up."""


def write_pairs(path: Path) -> None:
    """Write as many pairs as Quora has: sample questions with a few words changed."""
    with (SAMPLES_FOLDER / "quora-train.tsv").open(encoding="utf-8") as stream:
        rows = [line.rstrip("\n").split("\t") for line in stream][1:]
    words = sorted({word for row in rows for word in row[1].split()})
    generator = random.Random(0)
    with path.open("w", encoding="utf-8") as stream:
        stream.write("id\tsentence1\tsentence2\tis_duplicate\n")
        for number in range(ROWS):
            _, first, second, label = generator.choice(rows)
            changed = first.split()
            changed[generator.randrange(len(changed))] = generator.choice(words)
            stream.write(f"{number}\t{' '.join(changed)}\t{second}\t{label}\n")


def plain(path: Path, tokenizer: Tokenizer) -> float:
    """Measure reading and tokenizing row by row; return seconds for all rows."""
    start = time.perf_counter()
    encoded = []
    with path.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream, delimiter="\t")):
            if number == PLAIN_ROWS:
                break
            encoded.append(tokenizer.encode(row["sentence1"], row["sentence2"]).ids)
    return (time.perf_counter() - start) * ROWS / PLAIN_ROWS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    out = parser.parse_args().out
    folder = resolve_encoder("minilm")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "pairs.tsv"
        write_pairs(path)
        task = make_recipe({"tasks": {"quora": {"train": str(path), "dev": str(path)}}}).tasks["quora"]
        seconds = {}
        for name in ("palbert, first time", "palbert, from the cache"):
            start = time.perf_counter()
            load_dataset(files_of(task, "train"), TextTokenizer.from_folder(folder), cache=Path(place) / "cache")
            seconds[name] = time.perf_counter() - start
        seconds["row by row"] = plain(path, Tokenizer.from_file(str(folder / "tokenizer.json")))
    print(f"{ROWS:,} pairs")
    for name, time_taken in seconds.items():
        print(f"{name:26}{time_taken:8.2f} s")
    ratios = {name: seconds["row by row"] / value for name, value in seconds.items()}
    machine = {**machine_facts(torch.device("cpu")), "cores": os.cpu_count()}
    facts = {"benchmark": "reading", "rows": ROWS, **machine, "seconds": seconds, "ratios": ratios}
    write(facts, out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
