"""What a step of every method costs, beside the plain step on the same batches: time, and memory on CUDA.

Every step holds a batch of each of three tasks (sst, quora, sts; sample data). The plain step is measured right before
each method, so that a busy moment hits both.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from palbert.build import Machine, build_encoder, build_model, build_trainer, load_datasets
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

    def __init__(self, encoder: str, *, device: str, batch_size: int, steps: int) -> None:
        self.values: dict[str, Any] = {
            "data": "samples",
            "encoder": {"name": encoder},
            "tasks": ["sst", "quora", "sts"],
            "training": {"epochs": 1, "steps_per_epoch": 1000, "batch_size": batch_size, "sampler": "mixed"},
            "run": {"device": device},
        }
        self.steps = steps
        self.folder = resolve_encoder(encoder)
        self.tokenizer = TextTokenizer.from_folder(self.folder)
        self.machine = Machine.for_recipe(make_recipe(self.values))

    def trainer(self, method: dict[str, Any]) -> Trainer:
        """Make the trainer of one method."""
        merged = {**self.values, **{key: value for key, value in method.items() if not isinstance(value, dict)}}
        for key, value in method.items():
            if isinstance(value, dict):
                merged[key] = {**merged.get(key, {}), **value}
        recipe = make_recipe(merged)
        seed_everything(0)
        model = build_model(
            recipe.tasks, build_encoder(recipe, self.folder), adapters=recipe.adapters, relation=recipe.relation
        ).to(self.machine.device)
        train = load_datasets(recipe, "train", self.tokenizer)
        return build_trainer(
            recipe,
            model,
            tokenizer=self.tokenizer,
            machine=self.machine,
            train=train,
            evaluate=lambda *_, **__: None,  # type: ignore[arg-type, return-value]
        )

    def measure(self, method: dict[str, Any]) -> dict[str, float]:
        """Return the median time of a step in seconds and, on CUDA, the peak memory in bytes."""
        trainer = self.trainer(method)
        trainer.model.train()
        sets = trainer.sampler.epoch(1)[0]
        batches = [trainer.feed(sets, dict.fromkeys(sets, number)) for number in range(self.steps + 3)]
        times = []
        for number, batch in enumerate(batches):
            if number == 3:  # the first ones warm up
                self.synchronise(reset=True)
            start = time.perf_counter()
            trainer.step(batch)
            self.synchronise()
            if number >= 3:
                times.append(time.perf_counter() - start)
        found = {"seconds": statistics.median(times)}
        if self.machine.device.type == "cuda":
            found["bytes"] = float(torch.cuda.max_memory_allocated())
        del trainer, batches
        gc.collect()
        return found

    def synchronise(self, *, reset: bool = False) -> None:
        """Wait for the device."""
        if self.machine.device.type == "cuda":
            torch.cuda.synchronize()
            if reset:
                torch.cuda.reset_peak_memory_stats()


def main() -> None:
    """Measure, and print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch-size", type=int, default=32, help="rows of each task in a step")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=list(METHODS), metavar="METHOD")
    parser.add_argument("--out", type=Path, help="write the JSON line here too")
    arguments = parser.parse_args()
    bench = Bench(arguments.encoder, device=arguments.device, batch_size=arguments.batch_size, steps=arguments.steps)
    rows, plains = {}, []
    print(f"| {'method':28} | plain, ms | step, ms | time | memory |\n|{'-' * 30}|---|---|---|---|")
    for name in arguments.only:
        plain, found = bench.measure({}), bench.measure(METHODS[name])
        plains.append(plain["seconds"])
        rows[name] = {key: found[key] / plain[key] for key in found}
        memory = f"{rows[name]['bytes']:.2f} ×" if "bytes" in found else "–"
        shown = f"{plain['seconds'] * 1e3:.1f} | {found['seconds'] * 1e3:.1f} | {rows[name]['seconds']:.2f} ×"
        print(f"| {name:28} | {shown} | {memory} |", flush=True)
    facts = {
        "benchmark": "methods",
        "encoder": Path(arguments.encoder).name,
        "batch_size": arguments.batch_size,
        "plain_seconds": statistics.median(plains),
        "ratios": rows,
        "device": torch.cuda.get_device_name() if bench.machine.device.type == "cuda" else platform.machine(),
        "precision": bench.machine.precision,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(facts))
    if arguments.out:
        arguments.out.write_text(json.dumps(facts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
