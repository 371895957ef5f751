"""Evaluate: score a run on a split; write predictions, report.json and report.html."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert import __version__
from palbert.build import Machine, OpenedCheckpoint, build_inference, load_split, load_training_sets, open_checkpoint
from palbert.data.collate import sequence_lengths
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import DataError
from palbert.inference.evaluator import evaluate_tasks
from palbert.inference.results import TaskResult
from palbert.metrics import formula_text, overall
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.load import load_run_recipe
from palbert.recipe.paths import missing_files
from palbert.recipe.schema import Recipe
from palbert.registry.trust import trusting
from palbert.reporting.assessment import Assessment, assess_all, decision_notes
from palbert.reporting.bootstrap import bounds
from palbert.reporting.display import Summary, summary_table
from palbert.reporting.predictions import write_predictions
from palbert.reporting.report import RunReport, render_report
from palbert.reporting.report_task import Resampled, resample_scores
from palbert.reporting.word_marks import ScoredWords
from palbert.runtime.files import AnyPath, write_text
from palbert.runtime.run_folder import SPLITS, RunFolder
from palbert.runtime.visible import visible
from palbert.tasks.sets import files_of
from palbert.tasks.sources import FileSettings, Split
from palbert.training.hooks import read_records
from palbert.verbs.audit_bias_files import read_bias
from palbert.verbs.baselines import baselines_of, read_baselines
from palbert.verbs.decide import choose_decisions
from palbert.verbs.error_words import error_words
from palbert.verbs.final_test import labelled_test_rows
from palbert.verbs.findings.evidence import Evidence
from palbert.verbs.hub_run import local_copy
from palbert.verbs.notes import worth_knowing
from palbert.verbs.other_rows import OtherRows, other_rows


@dataclass(frozen=True, repr=False)
class Report:
    """The results of an evaluation, and where they were written."""

    run: Path
    split: str
    summary: Summary
    """The content of report.json."""
    results: list[TaskResult]
    baselines: dict[str, dict[str, float]]
    """The main metric of every task, by baseline."""
    page: Path
    """The report to open."""

    def __repr__(self) -> str:
        return visible(f"{summary_table(self.summary).text()}\nReport: {self.page}")

    def _repr_html_(self) -> str:
        return summary_table(self.summary).html(links={"The whole report": self.page})


def evaluate(
    run: AnyPath,
    *,
    split: Split = "dev",
    checkpoint: str | None = None,
    data: Mapping[str, Any] | None = None,
    text: Sequence[str] = (),
    label: str | None = None,
    settings: FileSettings | None = None,
    name: str | None = None,
    spreadsheet_safe: bool = False,
    trust: bool = False,
) -> Report:
    """Score a run's best checkpoint on a split; write predictions and the report into the run folder.

    The results of any other checkpoint go to `evaluations/<checkpoint>`, and those of other rows to
    `evaluations/<name>`, so that the run's own report stays.

    Args:
        run: The run folder, or `owner/name` of a run on the Hub, whose copy in `runs` gets the report.
        split: Which rows to score.
        checkpoint: "best", "last" or "best-<task>"; the best unless given.
        data: Other rows to score in place of a split, by task: a file, or rows as `palbert.train` takes them. They are
            read with the task's own settings.
        text: The text columns of these rows, where they are named otherwise than in training.
        label: The label column of these rows, where it is named otherwise than in training.
        settings: How files of these rows are written, where that differs from the task's files.
        name: The name of the evaluation of these rows; the names of the files, or "rows", unless given.
        spreadsheet_safe: Put an apostrophe in front of texts in the predictions that a spreadsheet program may take for
            a formula.
        trust: Whether code from outside palbert that the run names may be imported.
    """
    if split not in SPLITS:
        raise DataError(f"No split '{split}'.", hint=f"There are: {', '.join(SPLITS)}.")
    folder = RunFolder(local_copy(run))
    chosen = folder.checkpoint(checkpoint)  # before the lock, which would make a folder that is not there
    with folder.locked("evaluating"), trusting(trust):
        if data is None:
            return report_on(folder, chosen, split=split, spreadsheet_safe=spreadsheet_safe)
        recipe = load_run_recipe(folder.recipe)  # its own files may be elsewhere by now
        with other_rows(recipe, data, text=text, label=label, settings=settings) as rows:
            place = rows.place(folder, name, suffix="" if chosen == folder.checkpoint() else f"-{chosen.name}")
            return _evaluate(folder, chosen, place, recipe, "test", rows=rows, spreadsheet_safe=spreadsheet_safe)


def report_on(folder: RunFolder, chosen: Path, *, split: Split = "dev", spreadsheet_safe: bool = False) -> Report:
    """Score a checkpoint on a split of the run's recipe; the caller holds the run's lock."""
    place = folder if chosen == folder.checkpoint() else RunFolder(folder.evaluations / chosen.name)
    recipe = load_run_recipe(folder.recipe, check_files=True)
    return _evaluate(folder, chosen, place, recipe, split, spreadsheet_safe=spreadsheet_safe)


def _evaluate(
    folder: RunFolder,
    chosen: Path,
    place: RunFolder,
    recipe: Recipe,
    split: Split,
    *,
    rows: OtherRows | None = None,
    spreadsheet_safe: bool,
) -> Report:
    """Score a checkpoint of a run on a split of its recipe, or on other rows; write the report to `place`."""
    scored = rows.recipe if rows else recipe
    machine = Machine.for_recipe(recipe)
    opened = open_checkpoint(chosen, machine)
    datasets = _load_split(folder, scored, split, opened.tokenizer)
    inference = build_inference(opened.model, tokenizer=opened.tokenizer, machine=machine)
    inference.decisions = choose_decisions(chosen, recipe, inference, opened.tokenizer)
    results = evaluate_tasks(inference, recipe.tasks, datasets)
    is_own = split == "dev" and rows is None and place.path == folder.path
    test = labelled_test_rows(recipe, opened.tokenizer) if is_own else {}
    tested = evaluate_tasks(inference, recipe.tasks, test)
    for result in [*results, *tested]:
        write_predictions(place.predictions, result, spreadsheet_safe=spreadsheet_safe)
    train = load_training_sets(recipe, opened.tokenizer) if not missing_files(recipe) else {}
    records = read_records(folder.metrics)
    resampled = {result.task: resample_scores(result) for result in results}
    kept = read_baselines(folder, split)
    baselines = baselines_of(recipe, train, datasets, records, split, kept) if train else {}
    scores = _summary(recipe, results, resampled)
    template, intervals = opened.tokenizer.template, scores["intervals"]
    evidence = Evidence(scored, train, datasets, template, results, intervals, baselines, records)
    assessments = assess_all(recipe.tasks, results, inference.decisions)
    summary = {
        **scores,
        **_facts(opened, machine, split, chosen.name),
        "seconds": round(_seconds(records), 2),
        "finished_early": finished_early(records),
        "baselines": baselines,
        "rows": _rows(recipe, train, datasets, split),
        "probabilities": {name: each.summary() for name, each in assessments.items()},
        "notes": [*decision_notes(results, assessments), *worth_knowing(evidence)],
        **_test_summary(recipe, tested),
        **({"files": rows.files} if rows else {}),
    }
    report = Report(folder.path, split, Summary(summary), results, baselines, place.report("html", split=split))
    write_text(place.report("json", split=split), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    words = error_words(recipe.tasks, results, inference, machine, opened.tokenizer)
    write_text(report.page, _render(report, recipe, resampled, records, train, opened.tokenizer, assessments, words))
    return report


def _render(
    report: Report,
    recipe: Recipe,
    resampled: dict[str, Resampled],
    records: list[dict[str, Any]],
    train: Mapping[str, TrainingSet[Dataset]],
    tokenizer: TextTokenizer,
    assessments: Mapping[str, Assessment],
    words: Mapping[str, Mapping[int, Sequence[ScoredWords]]],
) -> str:
    """Render report.html."""
    return render_report(
        RunReport(
            title=recipe.description or report.run.resolve().name,
            summary={key: value for key, value in report.summary.items() if key not in ("notes", "baselines")},
            results=report.results,
            assessments=assessments,
            resampled=resampled,
            formula=recipe.overall,
            baselines=report.baselines,
            records=records,
            train_labels={name: each.rows.labels for name, each in train.items() if each.rows.labels is not None},
            recipe_text=RunFolder(report.run).recipe.read_text("utf-8"),
            notes=report.summary["notes"],
            words=words,
            lengths={
                name: sequence_lengths(each.rows.tokens, tokenizer.template, max_length=None, siamese=each.siamese)
                for name, each in train.items()
            },
            max_lengths={name: spec.max_length for name, spec in recipe.sets.items()},
            bias=read_bias(RunFolder(report.run)) if report.page == RunFolder(report.run).report("html") else None,
        )
    )


def _load_split(folder: RunFolder, recipe: Recipe, split: Split, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read the rows to score, of every task that has any; raise DataError unless they are labelled."""
    datasets = load_split(recipe, split, tokenizer)
    if not datasets:
        raise DataError(f"{folder.path}: its recipe names no {split} files.", hint="Name them, or take another split.")
    unlabelled = [name for name, dataset in datasets.items() if dataset.labels is None]
    if unlabelled:
        task = recipe.tasks[unlabelled[0]]
        column = files_of(task, split).sources[0].label or task.label
        raise DataError(
            f"{folder.path}: the {split} split has no labels to score against: "
            f"{', '.join(datasets[task.name].files)} has no column '{column}'.",
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


def _facts(opened: OpenedCheckpoint, machine: Machine, split: Split, checkpoint: str) -> dict[str, Any]:
    """Return what was evaluated, on which split, and where."""
    return {
        "parameters": _parameters(opened.model),
        "device": str(machine.device),
        "precision": machine.precision,
        "palbert": __version__,
        "split": split,
        "checkpoint": checkpoint,
        "epoch": opened.description.get("scores", {}).get("epoch"),
        "step": opened.description.get("step"),
        **{key: opened.description[key] for key in ("origin",) if key in opened.description},
    }


def _test_summary(recipe: Recipe, results: list[TaskResult]) -> dict[str, Any]:
    """Return the scores on test rows under their own key; nothing without results."""
    if not results:
        return {}
    scores = _summary(recipe, results, {result.task: resample_scores(result) for result in results})
    kept = {key: scores[key] for key in ("overall", "formula", "tasks", "metrics", "intervals")}
    return {"test": {**kept, "rows": {result.task: len(result.gold) for result in results}}}


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


def _seconds(records: list[dict[str, Any]]) -> float:
    """Return the training time so far."""
    times = [record["seconds"] for record in records if record["kind"] == "train"]
    return float(times[-1]) if times else 0.0


def finished_early(records: list[dict[str, Any]]) -> str | None:
    """Return after which step and why a run finished before its last epoch; None if it did not."""
    ends = [record for record in records if record["kind"] == "end"]
    return f"after step {ends[-1]['step']:,}: {ends[-1]['reason']}" if ends else None


def _rows(
    recipe: Recipe, train: Mapping[str, TrainingSet[Dataset]], datasets: Mapping[str, Dataset], split: str
) -> dict[str, dict[str, int]]:
    """Count the rows of every task, and the training rows of extra sets."""
    return {
        **{
            name: {**({"train": len(train[name])} if name in train else {}), split: len(rows)}
            for name, rows in datasets.items()
        },
        **{name: {"train": len(each)} for name, each in train.items() if name not in recipe.tasks},
    }
