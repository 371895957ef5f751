"""How good an automatic recipe is on few rows, compared with a linear model on vectors of the untrained encoder.

For each task, size and seed: rows to train on, 100 rows of dev that choose the epoch, and 400 rows that both are scored
on. Tasks are read from $PALBERT_DATA, or from one file of your own: --file FILE --text COLUMN [COLUMN] --label COLUMN.
Results are added to a JSON file, and what it already holds is not measured again; the table is printed at the end.
Where setfit is installed, it is trained on the same rows of tasks with one text and up to 64 rows per class.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import palbert
from palbert.metrics import find_metric
from palbert.model.comparison import compare
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import make_recipe

DEV, SCORED = 100, 400
SETFIT_ROWS = 400
"""SetFit learns from pairs of rows; with more rows it takes hours on a CPU."""


@dataclass(frozen=True)
class Data:
    """A file of labelled rows."""

    file: str
    text: tuple[str, ...]
    label: str
    number: bool = False
    quoted: bool = False


TASKS = {
    "SST-2": Data("glue/SST-2/train.tsv", ("sentence",), "label"),
    "STS": Data("cs224n/sts-train.csv", ("sentence1", "sentence2"), "similarity", number=True, quoted=True),
    "Quora": Data("quora/quora-train-natural.tsv", ("sentence1", "sentence2"), "is_duplicate"),
    "SST-5": Data("cs224n/ids-sst-train.csv", ("sentence",), "sentiment", quoted=True),
    "CoLA": Data("glue/CoLA/train.tsv", ("sentence",), "label"),
    "MRPC": Data("glue/MRPC/train.tsv", ("sentence1", "sentence2"), "label"),
    "QNLI": Data("glue/QNLI/dev.tsv", ("question", "sentence"), "label"),
    "RTE": Data("glue/RTE/train.tsv", ("sentence1", "sentence2"), "label"),
}


def read(data: Data, folder: Path) -> list[dict[str, Any]]:
    """Read the rows that have all their texts and a label."""
    with (folder / data.file).open(encoding="utf-8", newline="") as stream:
        comma = data.file.endswith(".csv") and not data.quoted
        rows: list[dict[str, Any]] = list(
            csv.DictReader(stream, delimiter="," if comma else "\t")
            if data.quoted or comma
            else csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        )
    kept = [row for row in rows if all((row[key] or "").strip() for key in (*data.text, data.label))]
    label = float if data.number else str
    return [{**{key: row[key].strip() for key in data.text}, "label": label(row[data.label])} for row in kept]


def parts(rows: Sequence[dict[str, Any]], size: str, seed: int, *, number: bool) -> dict[str, list[dict[str, Any]]]:
    """Draw the rows that are scored, dev and train; "8 per class" of numbers is 16 rows."""
    order = np.random.default_rng(seed).permutation(len(rows))
    drawn = [rows[index] for index in order]
    scored, dev, rest = drawn[:SCORED], drawn[SCORED : SCORED + DEV], drawn[SCORED + DEV :]
    count = int(size.split()[0])
    if not size.endswith("per class"):
        return {"train": rest[:count], "dev": dev, "test": scored}
    if number:
        return {"train": rest[: 2 * count], "dev": dev, "test": scored}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rest:
        found[row["label"]].append(row)
    train = [row for label in sorted(found) for row in found[label][:count]]
    return {"train": train, "dev": dev, "test": scored}


def recipe_of(data: Data, rows: Sequence[dict[str, Any]], *, encoder: str, seed: int) -> dict[str, Any]:
    """Return a recipe that leaves training open."""
    task: dict[str, Any] = {"kind": "pair" if len(data.text) == 2 else "single", "text": list(data.text)}
    labels = [row["label"] for row in rows]
    if data.number:
        task |= {"target": "number", "range": [min(labels), max(labels)]}
    else:
        task |= {"target": "classes", "classes": sorted(set(labels))}
    return {"seed": seed, "encoder": encoder, "tasks": {"task": task}, "run": {"tensorboard": False}}


def features(vectors: dict[str, np.ndarray], rows: Sequence[dict[str, Any]], text: tuple[str, ...]) -> list[np.ndarray]:
    """Return what the linear model sees of some rows."""
    columns = [np.stack([vectors[row[key]] for row in rows]) for key in text]
    if len(columns) == 1:
        return columns
    return [group.numpy() for group in compare(*map(torch.from_numpy, columns))]


def measure(data: Data, split: dict[str, list[dict[str, Any]]], values: dict[str, Any]) -> dict[str, Any]:
    """Train, and score the model and the linear model on the same rows."""
    with tempfile.TemporaryDirectory() as folder:
        run = palbert.train(values, data={"task": split}, out=Path(folder) / "run")
        chosen = run.report["epoch"]
        summary = palbert.evaluate(run, split="test").summary
    metric = summary["metrics"]["task"]
    found = {
        "metric": metric,
        "palbert": summary["tasks"]["task"][metric],
        "epoch": chosen,
        "rows": len(split["train"]),
    }
    texts = list({row[key] for rows in split.values() for row in rows for key in data.text})
    embedded = palbert.load(values["encoder"]).embed(texts, pooling="mean", normalise=False)
    vectors = dict(zip(texts, embedded, strict=True))
    task = make_recipe(
        {**values, "tasks": {"task": {**values["tasks"]["task"], "train": "-"}}}, check_files=False
    ).tasks["task"]
    labels = {name: task.target.array([task.target.read(row["label"]) for row in rows]) for name, rows in split.items()}
    groups = {name: features(vectors, split[name], data.text) for name in ("train", "test")}
    probe = task.target.probe(groups["train"], labels["train"])
    assert probe is not None
    decoded = task.target.decode(torch.from_numpy(probe(groups["test"])))
    found["probe"] = find_metric(metric)(task.target.gold(labels["test"]), decoded.predicted)
    if data.number:
        found["cosine"] = find_metric(metric)(task.target.gold(labels["test"]), groups["test"][-1][:, 0].astype(float))
    if len(data.text) == 1 and importlib.util.find_spec("setfit") and len(split["train"]) < SETFIT_ROWS:
        answers = setfit_answers(split, data.text[0], encoder=values["encoder"], seed=values["seed"])
        found["setfit"] = float(
            np.mean([row["label"] == answer for row, answer in zip(split["test"], answers, strict=True)])
        )
    return found


def setfit_answers(split: dict[str, list[dict[str, Any]]], text: str, *, encoder: str, seed: int) -> list[str]:
    """Train SetFit with its defaults, 20 pairs per row and answer the rows to score."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    labels = sorted({row["label"] for row in split["train"]})
    model = SetFitModel.from_pretrained(str(resolve_encoder(encoder)), labels=labels)
    rows = [{"text": row[text], "label": row["label"]} for row in split["train"]]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_iterations=20, seed=seed, report_to="none", show_progress_bar=False
        )
        Trainer(model=model, args=arguments, train_dataset=Dataset.from_list(rows)).train()
    return [str(answer) for answer in model.predict([row[text] for row in split["test"]])]


def table(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table: mean and standard deviation over seeds."""
    yield "| task | metric | training rows | palbert, automatic | linear probe | cosine | SetFit | difference | seeds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    cells: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        cells[result["task"], result["size"]].append(result)
    for (task, size), found in cells.items():
        shown = [_spread([one[key] for one in found if key in one]) for key in ("palbert", "probe", "cosine", "setfit")]
        difference = np.mean([one["palbert"] - one["probe"] for one in found])
        rows = f"{size} ({found[0]['rows']})" if size.endswith("class") else size
        yield f"| {task} | {found[0]['metric']} | {rows} | {' | '.join(shown)} | {difference:+.3f} | {len(found)} |"


def _spread(scores: list[float]) -> str:
    if not scores:
        return "–"
    return f"{np.mean(scores):.3f}" + (f" ± {np.std(scores, ddof=1):.3f}" if len(scores) > 1 else "")


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file of results")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="names of tasks")
    parser.add_argument("--sizes", nargs="+", default=["8 per class", "16 per class", "64 per class", "800"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--file", help="a file of your own: .csv or .tsv")
    parser.add_argument("--text", nargs="+", default=["text"], help="its text columns, one or two")
    parser.add_argument("--label", default="label", help="its label column")
    parser.add_argument("--number", action="store_true", help="its labels are numbers")
    arguments = parser.parse_args()
    tasks = {name: TASKS[name] for name in arguments.tasks}
    if arguments.file:
        tasks = {
            Path(arguments.file).stem: Data(arguments.file, tuple(arguments.text), arguments.label, arguments.number)
        }
    results = json.loads(arguments.out.read_text("utf-8")) if arguments.out.is_file() else []
    done = {(one["task"], one["size"], one["seed"]) for one in results}
    folder = Path(os.environ.get("PALBERT_DATA", "."))
    for seed in arguments.seeds:
        for size in arguments.sizes:
            for name, data in tasks.items():
                if (name, size, seed) in done:
                    continue
                rows = read(data, folder)
                split = parts(rows, size, seed, number=data.number)
                values = recipe_of(data, rows, encoder=arguments.encoder, seed=seed)
                found = measure(data, split, values)
                results.append({"task": name, "size": size, "seed": seed, "encoder": arguments.encoder, **found})
                arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
