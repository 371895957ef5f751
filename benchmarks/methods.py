"""What a step of each method costs, compared with the plain step on the same batches: time, and memory on CUDA.

Every step has a batch of each of three tasks (sst, quora, sts): sample data and a pretrained encoder, or with --shape
synthetic rows and random weights. The plain step is measured right before each method, so that a busy machine affects
both; on a machine that nobody else uses, --plain-every 5 saves time.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

from measuring import Stopwatch, Times, describe, machine_facts, write
from synthetic import HAS_CAPTURE, SHAPES, Steps, make_trainer

from palbert.build import Machine, build_encoder, build_model, build_trainer, load_training_sets
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import make_recipe
from palbert.runtime.seeding import seed_everything
from palbert.training.trainer import Trainer

FROZEN = {"encoder": {"frozen": True}}
PAIRS = ["quora", "sts"]
METHODS: dict[str, dict[str, Any]] = {
    "heads only (frozen encoder)": FROZEN,
    "PAL": {"adapters": "pal"},
    "PAL, encoder frozen": {"adapters": "pal", **FROZEN},
    "low-rank": {"adapters": "low-rank"},
    "Houlsby, encoder frozen": {"adapters": "houlsby", **FROZEN},
    "LoRA, encoder frozen": {"adapters": "lora", **FROZEN},
    "relational layer": {"relation": {"name": "linear", "tasks": PAIRS}},
    "relational MLP": {"relation": {"name": "mlp", "tasks": PAIRS}},
    "SMART": {"objectives": ["smart"]},
    "SMART, proximal half": {"objectives": ["proximal"]},
    "SMART, both halves": {"objectives": ["smart", "proximal"]},
    "R-Drop": {"objectives": ["rdrop"]},
    "SimCSE": {"objectives": ["simcse"]},
    "SimCSE, own dropout": {"objectives": [{"name": "simcse", "dropout": 0.2}]},
    "PCGrad": {"training": {"gradients": "pcgrad"}},
    "PCGrad, recompute": {"training": {"gradients": {"name": "pcgrad", "memory": "recompute"}}},
    "CAGrad": {"training": {"gradients": "cagrad"}},
    "MGDA": {"training": {"gradients": "mgda"}},
    "UPGrad": {"training": {"gradients": "upgrad"}},
    "IMTL-G": {"training": {"gradients": "imtl-g"}},
    "Aligned-MTL": {"training": {"gradients": "aligned-mtl"}},
    "FairGrad": {"training": {"gradients": "fairgrad"}},
    "uncertainty weighting": {"training": {"balance": "uncertainty"}},
    "loss normalisation": {"training": {"balance": "normalised"}},
    "EMA": {"training": {"average": "ema"}},
    "SWA": {"training": {"average": {"name": "swa", "start": 0.0}}},
    "mixout": {"encoder": {"mixout": 0.5}},
    "layer-wise rates": {"optimizer": {"layer_decay": 0.9}},
    "accumulation of 2": {"training": {"accumulation": 2}},
}


class Bench:
    """Steps of recipes that differ in one method."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        length = max(128, arguments.length or 0)
        self.values: dict[str, Any] = {
            "tasks": {name: {"max_length": length} for name in ("sst", *PAIRS)},
            "training": {
                "epochs": 1,
                "steps_per_epoch": 1000,
                "batch_size": arguments.batch_size,
                "sampler": "mixed",
            },
            "run": {"device": arguments.device, **({"capture": arguments.palbert} if HAS_CAPTURE else {})},
        }
        if not arguments.shape:
            self.values |= {"data": "samples", "encoder": {"name": arguments.encoder}}
            self.folder = resolve_encoder(arguments.encoder)
            self.tokenizer = TextTokenizer.from_folder(self.folder)
        self.machine = Machine.for_recipe(make_recipe(self.values, check_files=False))
        self.watch = Stopwatch(self.machine.device)

    def trainer(self, method: dict[str, Any]) -> Trainer:
        """Make the trainer of one method."""
        merged = {**self.values, **{key: value for key, value in method.items() if not isinstance(value, dict)}}
        for key, value in method.items():
            if isinstance(value, dict):
                merged[key] = {**merged.get(key, {}), **value}
        chosen = self.arguments
        if chosen.shape:
            return make_trainer(merged, shape=SHAPES[chosen.shape], batches=chosen.batches, length=chosen.length)
        recipe = make_recipe(merged)
        seed_everything(0)
        model = build_model(
            recipe.tasks, build_encoder(recipe, self.folder), adapters=recipe.adapters, relation=recipe.relation
        ).to(self.machine.device)
        train = load_training_sets(recipe, self.tokenizer)
        return build_trainer(
            recipe,
            model,
            template=self.tokenizer.template,
            machine=self.machine,
            train=train,
            evaluate=lambda *_, **__: None,  # type: ignore[arg-type]
        )

    def measure(self, method: dict[str, Any]) -> tuple[dict[str, float], str]:
        """Return the median time of a step in seconds, on CUDA its peak memory in bytes, and how it was computed."""
        times = Times()
        with self.watch.memory() as memory:
            work = Steps(self.trainer(method), self.arguments.batches)
            self.watch.warm_up(work, 2)
            for _ in range(math.ceil(self.arguments.steps / self.arguments.batches)):
                self.watch.time(work, times)
        return {**times.medians(), **memory}, work.summary()


def show(name: str, plain: dict[str, float], found: dict[str, float]) -> None:
    """Print the row of a method."""
    memory = (
        f"{found['bytes'] / plain['bytes']:.2f} × | {found['bytes'] / 2**30:.2f} GiB" if "bytes" in found else "– | –"
    )
    ratios = " | ".join(f"{found[key] / plain[key]:.2f} ×" for key in ("seconds", "run_seconds"))
    times = f"{plain['seconds'] * 1e3:.1f} | {found['seconds'] * 1e3:.1f}"
    print(f"| {name:28} | {times} | {ratios} | {memory} |", flush=True)


def parse(given: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--shape", choices=SHAPES, help="random weights of this shape instead of a pretrained encoder")
    parser.add_argument("--length", type=int, help="with --shape: tokens per sequence")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch-size", type=int, default=32, help="rows per task in a step")
    parser.add_argument("--steps", type=int, default=20, help="minimum number of steps to time")
    parser.add_argument("--batches", type=int, default=5, help="different batches among them")
    parser.add_argument("--palbert", choices=("auto", "off"), default="auto", help="how palbert captures steps")
    parser.add_argument("--plain-every", type=int, default=1, help="methods between measurements of the plain step")
    parser.add_argument("--only", nargs="*", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file, as results come in")
    arguments = parser.parse_args(given)
    if arguments.length and not arguments.shape:
        parser.error("--length needs --shape")
    return arguments


def main(given: list[str] | None = None) -> None:
    """Measure; print a table and one JSON line."""
    arguments = parse(given)
    bench = Bench(arguments)
    plains: list[dict[str, float]] = []
    facts: dict[str, Any] = {
        "benchmark": "methods",
        "encoder": f"random {arguments.shape}" if arguments.shape else Path(arguments.encoder).name,
        "shape": arguments.shape,
        "length": arguments.length,
        "batch_size": arguments.batch_size,
        "palbert": arguments.palbert,
        "precision": bench.machine.precision,
        **machine_facts(bench.machine.device),
        "ratios": {},
        "absolute": {},
        "execution": {},
        "errors": {},
    }
    columns = "plain, ms | step, ms | time | in a run | memory | memory"
    print(f"| {'method':28} | {columns} |\n|{'-' * 30}|---|---|---|---|---|---|")
    for number, name in enumerate(arguments.only):
        try:
            if number % arguments.plain_every == 0:
                plains.append(bench.measure({})[0])
            plain = plains[-1]
            found, facts["execution"][name] = bench.measure(METHODS[name])
        except Exception as error:  # perhaps out of memory: keep the others
            facts["errors"][name] = describe(error)
            print(f"| {name:28} | {facts['errors'][name]} |", flush=True)
        else:
            show(name, plain, found)
            facts["ratios"][name] = {key: found[key] / plain[key] for key in found}
            facts["absolute"][name] = found
            facts["plain"] = {key: statistics.median(each[key] for each in plains) for key in plain}
            facts["plain_seconds"] = facts["plain"]["seconds"]
        write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
