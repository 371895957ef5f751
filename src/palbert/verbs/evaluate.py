"""Evaluate: score a run on a split; write predictions, report.json and report.html."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert import __version__
from palbert.build import Machine, build_inference, load_split, load_training_sets, open_checkpoint
from palbert.data.collate import count_truncated, sequence_lengths
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import DataError
from palbert.inference.evaluator import constant_baseline, evaluate_tasks
from palbert.inference.results import TaskResult
from palbert.metrics import formula_text, overall
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.load import load_recipe
from palbert.recipe.schema import Recipe
from palbert.reporting.bootstrap import bounds
from palbert.reporting.predictions import write_predictions
from palbert.reporting.report import RunReport, render_report
from palbert.reporting.report_task import Resampled, resample_scores
from palbert.runtime.files import write_text
from palbert.runtime.run_folder import SPLITS, RunFolder
from palbert.tasks.catalog import SEEN_BY_ENCODERS
from palbert.tasks.sources import Split
from palbert.training.hooks import read_records

BASELINES = ("majority / mean", "untrained heads")


@dataclass(frozen=True)
class Report:
    """The results of an evaluation, and where they were written."""

    run: Path
    split: str
    summary: dict[str, Any]
    """The content of report.json."""
    results: list[TaskResult]
    baselines: dict[str, dict[str, float]]
    """The main metric of every task, by baseline."""
    page: Path
    """The report to open."""


def evaluate(run: str | Path, *, split: Split = "dev", checkpoint: str | None = None) -> Report:
    """Score a run's best checkpoint on a split; write predictions and the report into the run folder.

    The results of any other checkpoint go to `evaluations/<checkpoint>`, so that the run's own report stays.

    Args:
        run: The run folder.
        split: Which rows to score.
        checkpoint: "best", "last" or "best-<task>"; the best unless given.
    """
    if split not in SPLITS:
        raise DataError(f"No split '{split}'.", hint=f"There are: {', '.join(SPLITS)}.")
    folder = RunFolder(Path(run))
    chosen = folder.checkpoint(checkpoint)
    place = folder if chosen == folder.checkpoint() else RunFolder(folder.evaluations / chosen.name)
    recipe = load_recipe(folder.recipe)
    machine = Machine.for_recipe(recipe)
    opened = open_checkpoint(chosen, machine)
    datasets = _load_split(folder, recipe, split, opened.tokenizer)
    inference = build_inference(opened.model, tokenizer=opened.tokenizer, machine=machine)
    results = evaluate_tasks(inference, recipe.tasks, datasets)
    for result in results:
        write_predictions(place.predictions, result)
    train = load_training_sets(recipe, opened.tokenizer)
    records = read_records(folder.metrics)
    resampled = {result.task: resample_scores(result) for result in results}
    baselines = _baselines(recipe, train, datasets, records, split)
    summary = {
        **_summary(recipe, results, resampled),
        "parameters": _parameters(opened.model),
        "device": str(machine.device),
        "precision": machine.precision,
        "palbert": __version__,
        "split": split,
        "checkpoint": chosen.name,
        "epoch": opened.description.get("scores", {}).get("epoch"),
        "step": opened.description.get("step"),
        "seconds": round(_seconds(records), 2),
        "baselines": baselines,
        "rows": _rows(recipe, train, datasets, split),
        "notes": _notes(recipe, train, datasets, opened.tokenizer),
    }
    report = Report(folder.path, split, summary, results, baselines, place.report("html", split=split))
    write_text(place.report("json", split=split), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    write_text(report.page, _render(report, recipe, resampled, records, train, opened.tokenizer))
    return report


def _render(
    report: Report,
    recipe: Recipe,
    resampled: dict[str, Resampled],
    records: list[dict[str, Any]],
    train: Mapping[str, TrainingSet[Dataset]],
    tokenizer: TextTokenizer,
) -> str:
    """Render report.html."""
    return render_report(
        RunReport(
            title=recipe.description or report.run.resolve().name,
            summary={key: value for key, value in report.summary.items() if key not in ("notes", "baselines")},
            results=report.results,
            resampled=resampled,
            formula=recipe.overall,
            baselines=report.baselines,
            records=records,
            train_labels={name: each.rows.labels for name, each in train.items() if each.rows.labels is not None},
            recipe_text=RunFolder(report.run).recipe.read_text("utf-8"),
            notes=report.summary["notes"],
            lengths={
                name: sequence_lengths(each.rows.tokens, tokenizer.template, max_length=None, siamese=each.siamese)
                for name, each in train.items()
            },
            max_lengths={name: spec.max_length for name, spec in recipe.sets.items()},
        )
    )


def _load_split(folder: RunFolder, recipe: Recipe, split: Split, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read the rows to score, of every task that has any; raise DataError unless they are labelled."""
    datasets = load_split(recipe, split, tokenizer)
    if not datasets:
        raise DataError(f"{folder.path}: its recipe names no {split} files.", hint="Name them, or take another split.")
    if any(dataset.labels is None for dataset in datasets.values()):
        raise DataError(
            f"{folder.path}: the {split} split has no labels to score against.",
            hint="Write predictions for it with: palbert predict RUN --task T --input FILE --output FILE",
        )
    return datasets


def _summary(recipe: Recipe, results: list[TaskResult], resampled: Mapping[str, Resampled]) -> dict[str, Any]:
    """Return the scores and what they are scores of."""
    main = {result.task: (result.metric, result.scores[result.metric]) for result in results}
    ends = {task: bounds(resampled[task][metric], score) for task, (metric, score) in main.items()}
    return {
        "overall": overall(main, recipe.overall),
        "formula": formula_text({task: metric for task, (metric, _) in main.items()}, recipe.overall),
        "encoder": recipe.encoder.name,
        "seed": recipe.seed,
        "tasks": {result.task: result.scores for result in results},
        "metrics": {task: metric for task, (metric, _) in main.items()},
        "intervals": {task: {"low": low, "high": high} for task, (low, high) in ends.items()},
    }


def _parameters(model: MultiTaskModel) -> dict[str, Any]:
    """Count the parameters of the encoder, of each task, and of what several tasks share in addition to the encoder."""
    users = Counter(model.adapter_of.values())
    per_task = {name: _count(head) for name, head in model.heads.items()}
    shared = 0
    for owner, adapter in model.adapters.items():
        if users[owner] == 1:
            per_task[owner] += _count(adapter)
        else:
            shared += _count(adapter)
    further = {"shared_adapter": shared, "relation": _count(model.relation)}
    present = {name: count for name, count in further.items() if count}
    return {"encoder": _count(model.encoder), "per_task": per_task, **present}


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _baselines(
    recipe: Recipe,
    train: Mapping[str, TrainingSet[Dataset]],
    datasets: Mapping[str, Dataset],
    records: list[dict[str, Any]],
    split: str,
) -> dict[str, dict[str, float]]:
    constant, untrained = BASELINES
    found = {
        constant: {
            name: constant_baseline(recipe.tasks[name], train[name].rows, dataset) for name, dataset in datasets.items()
        }
    }
    for record in records:
        if record["kind"] == "evaluation" and record["epoch"] == 0 and split == "dev":
            found[untrained] = {name: record["tasks"][name][task.metric] for name, task in recipe.tasks.items()}
    return found


def _seconds(records: list[dict[str, Any]]) -> float:
    """Return the training time so far."""
    times = [record["seconds"] for record in records if record["kind"] == "train"]
    return float(times[-1]) if times else 0.0


def _rows(
    recipe: Recipe, train: Mapping[str, TrainingSet[Dataset]], datasets: Mapping[str, Dataset], split: str
) -> dict[str, dict[str, int]]:
    """Count the rows of every task, and the training rows of extra sets."""
    return {
        **{name: {"train": len(train[name]), split: len(datasets[name])} for name in datasets},
        **{name: {"train": len(each)} for name, each in train.items() if name not in recipe.tasks},
    }


def _notes(
    recipe: Recipe, train: Mapping[str, TrainingSet[Dataset]], datasets: Mapping[str, Dataset], tokenizer: TextTokenizer
) -> list[str]:
    notes = []
    [split] = {dataset.split for dataset in datasets.values()}
    encoder = recipe.encoder.name
    for seen, encoders in SEEN_BY_ENCODERS.items():
        if seen in recipe.tasks and recipe.data != "samples" and any(part in encoder.lower() for part in encoders):
            notes.append(f"{encoder} has seen {seen} pairs in its own training: its {seen} score is not clean.")
    if recipe.data == "samples":
        notes.append("Trained and scored on palbert's small sample data: a demonstration, not a benchmark.")
    for name, task in recipe.tasks.items():
        if {source.path for source in task.train} & {source.path for source in getattr(task, split)}:
            notes.append(f"{name}: trained on its {split} rows, so the score says nothing about other rows.")
    for name, dataset in [*((each.name, each.rows) for each in train.values()), *datasets.items()]:
        if dataset.dropped:
            notes.append(f"{name} {dataset.split}: {dataset.dropped} rows without text or label were left out.")
        if dataset.overlapping:
            kinds = " or ".join(recipe.sets[name].task.drop_overlap)
            notes.append(f"{name} train: {dataset.overlapping} rows were left out because they are also in {kinds}.")
        if dataset.unpaired:
            notes.append(
                f"{name} train: {dataset.unpaired} premises without entailment or contradiction were left out."
            )
        spec = recipe.sets[name]
        cut = count_truncated(dataset.tokens, tokenizer.template, max_length=spec.max_length, siamese=spec.siamese)
        if cut:
            notes.append(f"{name} {dataset.split}: {cut} of {len(dataset)} rows were cut at {spec.max_length} tokens.")
    return notes
