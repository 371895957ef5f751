"""What training against bias does: flip rates, mean absolute shifts and scores, without and with each remedy.

Three tasks (sst, quora, sts) are trained without a remedy, with swapped copies as extra sets, and with swap invariance
on top of these, on the same seeds and for the same number of steps. Each run is audited on its dev rows, on palbert's
templates and, with --eec, on sentences whose names and emotion words the remedies have not seen. Nothing else differs.

--data is a folder with the files of the course (ids-sst-train.csv, sts-train.csv, quora-dev.csv, …), or "samples".
The same command goes on where an earlier one ended.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from measuring import machine_facts

import palbert

SWAPS = {"extra": {"swaps": {"form": "identity-swaps"}}}
TASKS = ("sst", "quora", "sts")
VARIANTS: dict[str, dict[str, Any]] = {
    "none": {},
    "augmentation": {"tasks": SWAPS},
    "invariance": {"tasks": SWAPS, "objectives": ["swap-invariance"]},
}


def recipe_of(variant: str, seed: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the recipe of a run."""
    settings = VARIANTS[variant]
    objectives = [{"name": name, "weight": options.weight} for name in settings.get("objectives", ())]
    return {
        "seed": seed,
        "data": options.data,
        "encoder": options.encoder,
        "objectives": objectives,
        "tasks": {name: {**files_of(name, options, folder), **settings.get("tasks", {})} for name in TASKS},
        "training": {
            "epochs": 1,
            "steps_per_epoch": options.steps,
            "batch_size": options.batch_size,
            "sampler": "square-root",
        },
        "optimizer": {"learning_rate": options.learning_rate},
        "run": {"device": options.device, "tensorboard": False},
    }


def files_of(task: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the files of quora, cut to the first rows so that a run takes minutes; none for tasks found by name."""
    if task != "quora" or not options.quora_train:
        return {}
    dev = Path(options.data) / "quora-dev.csv"
    return {
        "train": str(first_rows(Path(options.quora_train), options.rows, folder)),
        "dev": str(first_rows(dev, options.rows // 5, folder)),
        "label": "is_duplicate",
        "bad_rows": "drop",  # a few lines of the course's file have no label
    }


def first_rows(path: Path, rows: int, folder: Path) -> Path:
    """Copy the first lines of a file with one row per line."""
    target = folder / path.name
    if not target.exists():
        with path.open(encoding="utf-8") as source, target.open("w", encoding="utf-8") as copy:
            copy.writelines(line for _, line in zip(range(rows + 1), source, strict=False))
    return target


def measure(variant: str, seed: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Train and audit one run."""
    start = time.perf_counter()
    run = palbert.train(recipe_of(variant, seed, options, folder), out=folder / f"{variant}-{seed}")
    trained = time.perf_counter()
    audit = palbert.audit_bias(
        run.path, files=[options.eec] if options.eec else (), rows=options.audit_rows, device=options.device
    )
    bias = {}
    for name, task in audit.summary["tasks"].items():
        bias[name] = _figures(task)
        bias |= {f"{name} on {file}": _figures(each) for file, each in task.get("files", {}).items()}
    summary = run.report
    return {
        "variant": variant,
        "seed": seed,
        "scores": {name: summary["tasks"][name][metric] for name, metric in summary["metrics"].items()},
        "bias": bias,
        "seconds": {"training": trained - start, "audit": time.perf_counter() - trained},
    }


def _figures(task: dict[str, Any]) -> dict[str, float]:
    significant = [each["significant"] for each in task["groups"]]
    return {
        "flip_rate": task["flip_rate"],
        "mean_absolute_shift": task["mean_absolute_shift"],
        "largest_group_shift": max(abs(each["mean_shift"]) for each in task["groups"]),
        "significant_share": sum(significant) / len(significant),
        "pairs": task["pairs"],
    }


def summarise(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and standard deviation over seeds of every figure, by variant."""
    found: dict[str, Any] = {}
    for variant in VARIANTS:
        own = [run for run in runs if run["variant"] == variant]
        if own:
            found[variant] = {
                "seeds": [run["seed"] for run in own],
                "scores": {name: _spread([run["scores"][name] for run in own]) for name in own[0]["scores"]},
                "bias": {
                    name: {key: _spread([run["bias"][name][key] for run in own]) for key in figures}
                    for name, figures in own[0]["bias"].items()
                },
            }
    return found


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": statistics.mean(values), "deviation": statistics.stdev(values) if len(values) > 1 else 0.0}


def table(summary: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| variant | on | score | flip rate | mean absolute shift | largest shift of a group |"
    yield "|---|---|---|---|---|---|"
    for variant, figures in summary.items():
        for name, bias in figures["bias"].items():
            score = _shown(figures["scores"][name]) if name in figures["scores"] else "–"
            keys = ("flip_rate", "mean_absolute_shift", "largest_group_shift")
            yield f"| {variant} | {name} | {score} | {' | '.join(_shown(bias[key]) for key in keys)} |"


def _shown(value: dict[str, float]) -> str:
    return f"{value['mean']:.4f} ± {value['deviation']:.4f}"


def main(given: Sequence[str] | None = None) -> None:
    """Measure what is missing in the file of results, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file of results")
    parser.add_argument("--data", default="samples", help="a folder with the course's files [the sample data]")
    parser.add_argument("--quora-train", help="training pairs of quora, if they are not in that folder")
    parser.add_argument("--eec", help="a file in the form of the Equity Evaluation Corpus")
    parser.add_argument("--encoder", default="minilm", help="an encoder: a name, a folder or a Hub id")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--steps", type=int, default=1200, help="steps of a run")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--weight", type=float, default=1.0, help="of swap invariance")
    parser.add_argument("--rows", type=int, default=20_000, help="training rows of quora; dev has a fifth of that")
    parser.add_argument("--audit-rows", type=int, default=2000, help="dev rows of each task that are audited")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(given)
    settings = {key: value for key, value in vars(options).items() if key not in ("out", "seeds", "variants")}
    facts: dict[str, Any] = {"benchmark": "bias", "settings": settings, "runs": []}
    if options.out.is_file():
        facts = json.loads(options.out.read_text("utf-8"))
        if facts["settings"] != settings:
            parser.error(f"{options.out} has results of other settings; give another file with --out")
    done = {(run["variant"], run["seed"]) for run in facts["runs"]}
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            for variant in options.variants:
                if (variant, seed) not in done:
                    facts["runs"].append(measure(variant, seed, options, Path(folder)))
                    device = torch.device("cuda" if torch.cuda.is_available() and options.device != "cpu" else "cpu")
                    facts |= {**machine_facts(device), "summary": summarise(facts["runs"])}
                    options.out.parent.mkdir(parents=True, exist_ok=True)
                    options.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(facts.get("summary", {}))))


if __name__ == "__main__":
    main()
