"""What is lost where a task is added to a trained run instead of being trained with the others, and what soups give.

For each seed, a run of the base tasks is trained, and one of the base tasks and the new one together ("joint"). The run
of the base tasks then gets the new task in three ways: a head alone, a head and a PAL, a head and LoRA. The runs of the
seeds are merged, once with heads of their own and once from a common start with trained heads.
Results are added to a JSON file after each run, and what it already holds is not measured again.

    python benchmarks/grow.py --data DATA --encoder BAAI/bge-small-en-v1.5 --out grow.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine_facts
from small_data import Data, read

import palbert

Rows = list[dict[str, Any]]
FILES: dict[str, tuple[Data, Data]] = {
    "sst": (
        Data("cs224n/ids-sst-train.csv", ("sentence",), "sentiment", quoted=True),
        Data("cs224n/ids-sst-dev.csv", ("sentence",), "sentiment", quoted=True),
    ),
    "quora": (
        Data("quora/quora-train-natural.tsv", ("sentence1", "sentence2"), "is_duplicate"),
        Data("cs224n/quora-dev.csv", ("sentence1", "sentence2"), "is_duplicate", quoted=True),
    ),
    "sts": (
        Data("cs224n/sts-train.csv", ("sentence1", "sentence2"), "similarity", number=True, quoted=True),
        Data("cs224n/sts-dev.csv", ("sentence1", "sentence2"), "similarity", number=True, quoted=True),
    ),
    "cfimdb": (
        Data("cs224n/ids-cfimdb-train.csv", ("sentence",), "sentiment", quoted=True),
        Data("cs224n/ids-cfimdb-dev.csv", ("sentence",), "sentiment", quoted=True),
    ),
    **{
        name: (Data(f"glue/{name}/train.tsv", text, "label"), Data(f"glue/{name}/dev.tsv", text, "label"))
        for name, text in (("CoLA", ("sentence",)), ("RTE", ("sentence1", "sentence2")))
    },
}
"""Training and dev files of each task, below the folder of --data."""
WAYS: dict[str, dict[str, Any]] = {
    "head alone": {},
    "head and PAL": {"adapters": {"name": "pal", "size": 96, "heads": 12}},
    "head and LoRA": {"adapters": {"name": "lora", "rank": 8}},
}
"""How the new task is added, as a file of new tasks says it."""
JOINT, BASE, WARM = "joint", "base tasks", "base tasks, common start"


def task_of(name: str, rows: Rows) -> dict[str, Any]:
    """Return the settings of a task with these training rows."""
    data, _ = FILES[name]
    task: dict[str, Any] = {"kind": "pair" if len(data.text) == 2 else "single", "text": list(data.text)}
    if data.number:
        return {**task, "target": "number", "range": [0, 5], "label": "label"}
    return {**task, "target": "classes", "classes": sorted({row["label"] for row in rows}), "label": "label"}


class Experiment:
    """The runs of one experiment, their scores, and the file of results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows = {name: self._read(name) for name in (*options.base, options.new)}
        self.tasks = {name: task_of(name, rows["train"]) for name, rows in self.rows.items()}
        self.work = Path(options.work)
        settings = ("encoder", "base", "new", "epochs", "steps", "rows", "dev_rows")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.facts: dict[str, Any] = {
            "benchmark": "grow",
            **machine_facts(device),
            "settings": {key: getattr(options, key) for key in settings},
            "runs": {},
            "soups": {},
        }
        self.out = Path(options.out)
        if self.out.is_file():
            former = json.loads(self.out.read_text("utf-8"))
            if former["settings"] != self.facts["settings"]:
                raise SystemExit(f"{self.out}: holds results of other settings: give another file with --out.")
            self.facts = former

    def _read(self, name: str) -> dict[str, Rows]:
        """Read a task's rows; of more rows than asked for, draw some, the same ones for all seeds."""
        found = {}
        for split, data, most in zip(
            ("train", "dev"), FILES[name], (self.options.rows, self.options.dev_rows), strict=True
        ):
            rows = read(data, Path(self.options.data))
            drawn = np.random.default_rng(0).permutation(len(rows))[:most]
            found[split] = [rows[index] for index in sorted(drawn)]
        return found

    def recipe(self, tasks: Sequence[str], seed: int, **more: Any) -> dict[str, Any]:
        """Return the recipe of a run; with more tasks it has more steps, so that each task sees as many."""
        options = self.options
        steps = round(options.steps * len(tasks) / len(options.base))
        return {
            "seed": seed,
            "encoder": options.encoder,
            "tasks": {name: {**self.tasks[name], "pooling": "mean"} for name in tasks},
            "training": {"epochs": options.epochs, "steps_per_epoch": steps, "batch_size": 32, "save_every": 10**6},
            "optimizer": {"learning_rate": 5e-5, "head_learning_rate": 1e-3, "schedule": "stlr"},
            "run": {"tensorboard": False},
            **more,
        }

    def data(self, tasks: Sequence[str]) -> dict[str, dict[str, Rows]]:
        """Return the rows of some tasks."""
        return {name: self.rows[name] for name in tasks}

    def once(self, way: str, seed: int, make: Callable[[Path], palbert.Run]) -> Path:
        """Make a run and keep its scores, unless both are there."""
        folder, key = self.work / f"{way.replace(' ', '-').replace(',', '')}-{seed}", f"{way} / {seed}"
        if key in self.facts["runs"] and (folder / "report.json").is_file():
            return folder
        start = time.perf_counter()
        run = make(folder)
        report = run.report
        self.facts["runs"][key] = {
            "way": way,
            "seed": seed,
            "scores": {task: report["tasks"][task][metric] for task, metric in report["metrics"].items()},
            "overall": report["overall"],
            "trained_seconds": report["seconds"],
            "seconds": round(time.perf_counter() - start, 2),
            "parameters": report["parameters"]["per_task"].get(self.options.new),
        }
        self.save()
        return folder

    def save(self) -> None:
        """Write the results so far."""
        self.facts["summary"] = summary(self.facts["runs"].values(), self.options.new)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.write_text(json.dumps(self.facts, indent=1) + "\n", "utf-8")

    def run_seed(self, seed: int) -> Path:
        """Train the base tasks, all tasks together, and the new task in each way; return the run of the base tasks."""
        options = self.options
        everything = [*options.base, options.new]

        def train(tasks: Sequence[str]) -> Callable[[Path], palbert.Run]:
            return lambda out: palbert.train(self.recipe(tasks, seed), data=self.data(tasks), out=out, force=True)

        base = self.once(BASE, seed, train(options.base))
        self.once(JOINT, seed, train(everything))
        for way, more in WAYS.items():
            self.once(way, seed, lambda out, more=more: self.grow(base, out, seed, more))  # type: ignore[misc]
        return base

    def grow(self, base: Path, out: Path, seed: int, more: dict[str, Any]) -> palbert.Run:
        """Add the new task to the run of the base tasks."""
        new = self.options.new
        training = {"epochs": self.options.epochs if more else 4 * self.options.epochs, "log_every": 100}
        values = {"seed": seed, "tasks": {new: self.tasks[new]}, "training": training, **more}
        return palbert.add_task(base, values, data=self.data([new]), out=out, force=True)

    def merge(self, name: str, runs: Sequence[Path]) -> None:
        """Merge runs of several seeds, and keep all scores."""
        if name in self.facts["soups"] or len(runs) < 2:
            return
        merged = palbert.merge(runs, out=self.work / f"soup-{name.replace(' ', '-').replace(',', '')}", force=True)
        self.facts["soups"][name] = {Path(each.name).name: each.evaluation.overall for each in merged.scores}
        self.save()

    def common_start(self) -> Path:
        """Train heads alone, from which all seeds start."""
        base = self.options.base
        values = self.recipe(base, 0)
        values["encoder"] = {"name": self.options.encoder, "frozen": True}
        values["training"] = {**values["training"], "epochs": 1}
        return self.once("heads first", 0, lambda out: palbert.train(values, data=self.data(base), out=out, force=True))

    def warm_run(self, start: Path, seed: int) -> Path:
        """Train the base tasks from the common start."""
        base, encoder = self.options.base, {"name": str(start), "keep": ["heads"]}
        values = self.recipe(base, seed, encoder=encoder)
        return self.once(WARM, seed, lambda out: palbert.train(values, data=self.data(base), out=out, force=True))


def summary(runs: Any, new: str) -> dict[str, Any]:
    """Return mean and standard deviation over seeds of each way, and of its difference from joint training."""
    by_way: dict[str, dict[int, dict[str, float]]] = defaultdict(dict)
    for run in runs:
        by_way[run["way"]][run["seed"]] = {**run["scores"], "overall": run["overall"]}
    joint = by_way.get(JOINT, {})
    found: dict[str, Any] = {}
    for way, seeds in by_way.items():
        names = list(next(iter(seeds.values())))
        found[way] = {
            "seeds": sorted(seeds),
            **{name: spread([each[name] for each in seeds.values()]) for name in names},
        }
        paired = [seed for seed in seeds if seed in joint and new in seeds[seed]]
        if paired and way != JOINT:
            found[way]["less joint"] = {
                name: spread([seeds[seed][name] - joint[seed][name] for seed in paired]) for name in names
            }
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return mean and standard deviation."""
    return {"mean": statistics.fmean(values), "sd": statistics.stdev(values) if len(values) > 1 else 0.0}


def table(facts: dict[str, Any], tasks: Sequence[str]) -> str:
    """Return the means with their standard deviations, one line per way, and the soups."""
    lines = [f"{'dev, mean ± sd over seeds':28}" + "".join(f"{name:>18}" for name in tasks)]
    for way, found in facts["summary"].items():
        cells = [f"{found[name]['mean']:.4f} ± {found[name]['sd']:.4f}" if name in found else "–" for name in tasks]
        lines.append(f"{way:28}" + "".join(f"{cell:>18}" for cell in cells))
    for name, scores in facts["soups"].items():
        lines.append(f"merged, {name}: " + ", ".join(f"{run} {score:.4f}" for run, score in scores.items()))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder with cs224n, quora and glue")
    parser.add_argument("--encoder", default="minilm", help="a folder, a Hub id or minilm")
    parser.add_argument("--out", required=True, help="the JSON file of results")
    parser.add_argument("--work", default="runs/grow", help="where the runs go")
    parser.add_argument("--base", nargs="+", default=["sst", "quora", "sts"], choices=list(FILES))
    parser.add_argument("--new", default="CoLA", choices=list(FILES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400, help="steps per epoch of the base tasks")
    parser.add_argument("--rows", type=int, default=20_000, help="training rows of a task at most")
    parser.add_argument("--dev-rows", type=int, default=4_000, help="dev rows of a task at most")
    options = parser.parse_args(arguments)
    experiment = Experiment(options)
    bases = [experiment.run_seed(seed) for seed in range(options.seeds)]
    experiment.merge("heads of their own", bases)
    start = experiment.common_start()
    experiment.merge("common start", [experiment.warm_run(start, seed) for seed in range(options.seeds)])
    print(table(experiment.facts, [*options.base, options.new, "overall"]))


if __name__ == "__main__":
    main()
