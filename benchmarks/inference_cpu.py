"""Texts to vectors on the CPU, tokenizing included: palbert, onnxruntime, transformers, sentence-transformers.

All use the same encoder and the same texts, with lengths as in real pairs, and average the states of a text's tokens:
many texts in one call, and one text per call. transformers pads batches of 32 rows in the given order, or sorted by
length; sentence-transformers and onnxruntime's batches are sorted. Each has a process of its own, so that one's threads
do not spin on the cores that another one uses; they are asked in turns.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from measuring import describe, machine_facts, write
from onnx_models import ONNX_WAYS, with_onnxruntime

from palbert.build import Machine, OpenedCheckpoint, build_model, open_encoder
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import make_recipe
from palbert.recipe.paths import SAMPLES_FOLDER
from palbert.runtime.precision import has_int8
from palbert.verbs.predict import Predictor

BATCH, LONGEST = 32, 128
PAUSE = 0.004
"""Seconds before each call with one text, in which the threads of the one before stop spinning."""
Embed = Callable[[list[str]], Any]


def make_texts(rows: int) -> list[str]:
    """Make texts from words of the samples, with lengths as in real pairs: lognormal(3.25, 0.45), at most 128."""
    lines = (SAMPLES_FOLDER / "sst-train.tsv").read_text("utf-8").splitlines()[1:]
    words = [word for line in lines for word in line.split("\t")[1].split()]
    draw = random.Random(0)
    lengths = [min(max(int(draw.lognormvariate(3.25, 0.45)), 3), LONGEST) for _ in range(rows)]
    starts = [draw.randrange(len(words) - LONGEST) for _ in lengths]
    return [" ".join(words[start : start + length]) for start, length in zip(starts, lengths, strict=True)]


def with_palbert(folder: Path, *, int8: bool) -> Embed:
    """Return palbert's `embed`: sorted by length, packed, without padding."""
    machine = Machine(torch.device("cpu"), "int8" if int8 else "fp32")
    predictor = Predictor(open_encoder(str(folder), machine), machine)
    predictor.embedder.max_length = LONGEST
    return predictor.embed


def with_prediction(folder: Path, *, int8: bool) -> Embed:
    """Return palbert's `predict` for a task with the same mean vectors, a linear layer and five classes."""
    machine = Machine(torch.device("cpu"), "int8" if int8 else "fp32")
    alone = open_encoder(str(folder), machine)
    values = {"data": "samples", "encoder": str(folder), "tasks": {"sst": {"pooling": "mean", "max_length": LONGEST}}}
    tasks = dict(make_recipe(values).tasks)
    model = build_model(tasks, alone.model.encoder).eval()
    predictor = Predictor(OpenedCheckpoint(model, alone.tokenizer, tasks, {}), machine)
    return partial(predictor.predict, "sst")


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
    from sentence_transformers import SentenceTransformer  # in its own process alone: importing it takes seconds

    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = LONGEST
    plain = SentenceTransformer(modules=list(model)[:2], device="cpu")  # the encoder and the mean
    return lambda texts: plain.encode(texts, batch_size=BATCH, show_progress_bar=False)


def ways_of(folder: Path) -> dict[str, Callable[[], Embed]]:
    """Return what makes each way; palbert's come first."""
    ways: dict[str, Callable[[], Embed]] = {}
    for name in ("fp32", "int8") if has_int8() else ("fp32",):
        ways[f"palbert {name}"] = partial(with_palbert, folder, int8=name == "int8")
        ways[f"palbert {name}, predict"] = partial(with_prediction, folder, int8=name == "int8")
    for name, way in ONNX_WAYS.items():
        ways[name] = partial(with_onnxruntime, folder, way, longest=LONGEST)
    for attention in ("sdpa", "eager"):
        ways[f"transformers {attention}"] = partial(with_transformers, folder, attention, by_length=False)
        ways[f"transformers {attention}, sorted"] = partial(with_transformers, folder, attention, by_length=True)
    ways["sentence-transformers"] = partial(with_sentence_transformers, folder)
    return ways


class Taken(NamedTuple):
    """What one call took."""

    seconds: float
    processor: float
    """Seconds of all threads of the process."""


def serve(way: Callable[[], Embed], threads: int | None, connection: Connection) -> None:
    """Answer calls until the connection is closed: (texts, whether the vectors are wanted) → `Taken`, or vectors."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if threads:
        torch.set_num_threads(threads)
    try:
        embed = way()
    except Exception as error:  # a library that is not installed, or does not run here
        connection.send(describe(error))
        return
    connection.send(None)
    while True:
        try:
            texts, wants_vectors = connection.recv()
        except EOFError:
            return
        start, busy = time.perf_counter(), time.process_time()
        vectors = embed(texts)
        taken = Taken(time.perf_counter() - start, time.process_time() - busy)
        connection.send(np.asarray(vectors) if wants_vectors else taken)


@contextmanager
def asked(way: Callable[[], Embed], threads: int | None) -> Iterator[tuple[Connection, str | None]]:
    """Start the process of one way; yield the connection to it, and why it does not work, if it does not."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(way, threads, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        try:
            problem = ours.recv()
        except EOFError:
            problem = "the process ended"
        yield ours, problem
    finally:
        ours.close()
        process.join()


def call(connection: Connection, texts: list[str]) -> Taken:
    """Have a way embed texts; return what it took."""
    connection.send((texts, False))
    taken: Taken = connection.recv()
    return taken


def over(times: dict[str, list[float]], base: str) -> dict[str, float]:
    """Divide by the time of one way in the same turn, so that changes of the machine's load cancel out."""
    own = times[base]
    return {
        name: statistics.median(value / own[turn] for turn, value in enumerate(values))
        for name, values in times.items()
    }


def measure(connections: dict[str, Connection], turns: list[list[str]]) -> dict[str, list[Taken]]:
    """Ask all ways in turns; return what each took in each turn."""
    found: dict[str, list[Taken]] = {name: [] for name in connections}
    names = list(connections)
    for number, texts in enumerate(turns):
        shift = number % len(names)  # nobody always follows the same one
        for name in (*names[shift:], *names[:shift]):
            if len(texts) == 1:
                time.sleep(PAUSE)
            found[name].append(call(connections[name], texts))
    return found


def facts_of(found: dict[str, list[Taken]]) -> dict[str, Any]:
    """Return medians and ratios of what all ways took in the same turns."""
    clock = {name: [each.seconds for each in taken] for name, taken in found.items()}
    busy = {name: [each.processor for each in taken] for name, taken in found.items()}
    return {
        "seconds": {name: statistics.median(values) for name, values in clock.items()},
        "processor_seconds": {name: statistics.median(values) for name, values in busy.items()},
        "time_over_palbert_fp32": over(clock, "palbert fp32"),
        "processor_time_over_palbert_fp32": over(busy, "palbert fp32"),
    }


def cosines_of(connections: dict[str, Connection], texts: list[str]) -> dict[str, float]:
    """Return how similar the vectors are to palbert's in fp32, on average."""
    vectors = {}
    for name, connection in connections.items():
        if not name.endswith("predict"):
            connection.send((texts, True))
            vectors[name] = connection.recv()
    exact = vectors["palbert fp32"]
    return {
        name: float(((found * exact).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(exact, axis=1)).mean())
        for name, found in vectors.items()
    }


def show(title: str, facts: dict[str, Any], rows: int, cosines: dict[str, float]) -> None:
    """Print a table."""
    print(f"\n{title:36}{'ms':>9}{'CPU ms':>9}{'rows/s':>9}{'clock':>9}{'processor':>11}{'cosine':>10}")
    for name, seconds in facts["seconds"].items():
        ratios = facts["time_over_palbert_fp32"][name], facts["processor_time_over_palbert_fp32"][name]
        print(
            f"{name:36}{1e3 * seconds:9.2f}{1e3 * facts['processor_seconds'][name]:9.2f}{rows / seconds:9.1f}"
            f"{ratios[0]:7.2f} ×{ratios[1]:9.2f} ×{cosines.get(name, float('nan')):10.5f}"
        )


def main(given: list[str] | None = None) -> None:
    """Measure all in turn, so that a busy machine affects all alike; print tables and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5, help="calls with all rows")
    parser.add_argument("--singles", type=int, default=128, help="calls with one text")
    parser.add_argument("--threads", type=int, help="threads of each way; torch's default unless given")
    parser.add_argument("--ways", nargs="+", help="only ways whose name begins so, and palbert's")
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    arguments = parser.parse_args(given)
    texts = make_texts(arguments.rows)
    wanted = tuple(arguments.ways or [""])
    errors = {}
    with ExitStack() as stack:
        connections: dict[str, Connection] = {}
        for name, way in ways_of(resolve_encoder(arguments.encoder)).items():
            if name.startswith(("palbert", *wanted)):
                connection, problem = stack.enter_context(asked(way, arguments.threads))
                if problem is None:
                    connections[name] = connection
                else:
                    errors[name] = problem
        cosines = cosines_of(connections, texts[:64])
        singles = [[texts[number % len(texts)]] for number in range(arguments.singles)]
        measure(connections, singles[:16])  # a warm-up
        one = facts_of(measure(connections, singles))
        many = facts_of(measure(connections, [texts] * arguments.rounds))
    show("one text per call", one, 1, cosines)
    show(f"{arguments.rows} texts per call", many, arguments.rows, cosines)
    libraries = ("transformers", "sentence-transformers", "onnxruntime")
    facts = {
        "benchmark": "inference_cpu",
        "encoder": Path(arguments.encoder).name,
        "rows": arguments.rows,
        "rows_per_second": {name: arguments.rows / seconds for name, seconds in many["seconds"].items()},
        "time_over_palbert_fp32": many["time_over_palbert_fp32"],
        "processor_time_over_palbert_fp32": many["processor_time_over_palbert_fp32"],
        "one_text": one,
        "cosine_with_palbert_fp32": cosines,
        "errors": errors,
        "load": os.getloadavg()[0],
        **machine_facts(torch.device("cpu"), **{name: importlib.metadata.version(name) for name in libraries}),
    }
    if arguments.threads:
        facts["threads"] = arguments.threads
    write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
