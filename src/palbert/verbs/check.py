"""Check: summarise the data of a recipe, and report what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from palbert.build import count_overlap, has_rows, load_rows
from palbert.build.tokenizer import load_tokenizer
from palbert.data.collate import sequence_lengths
from palbert.data.dataset import Dataset
from palbert.data.overlap import Row, normal_row
from palbert.data.tokenizer import TextTokenizer
from palbert.model.pretrained import read_folder_config, resolve_encoder
from palbert.recipe.schema import Recipe
from palbert.reporting.advice import advice
from palbert.reporting.data_summary import SplitSummary, render_data_report
from palbert.reporting.display import Table
from palbert.reporting.wording import plural
from palbert.runtime.files import write_text
from palbert.tasks.sets import SetSpec, files_of, sets_of
from palbert.tasks.spec import Task
from palbert.verbs.in_memory import AnyRecipe, Data, staged

EXAMPLES = 3
HEADER = (
    *("task", "split", "rows", "labels", "tokens mean / max"),
    *("truncated", "empty", "duplicates", "in train", "overlap"),
)
UNPAIRED = "no entailment, or no contradiction"


class DataSummaries(list[SplitSummary]):
    """The summaries of all splits, shown in a notebook as a table with advice below it."""

    def table(self) -> Table:
        """Return a row for each split."""
        return Table(HEADER, [_cells(each) for each in self], [text for each in self for text in each.advice])

    def _repr_html_(self) -> str:
        return self.table().html()


def check_data(recipe: AnyRecipe, *, data: Data | None = None, overrides: Sequence[str] = ()) -> DataSummaries:
    """Read all data of a recipe and summarise every split of every task.

    Args:
        recipe: A recipe, its file, the name of a built-in one, or its settings as a dict.
        data: Rows by task, in place of files, as `palbert.train` takes them.
        overrides: Settings as `key=value`.
    """
    with staged(data) as rows:
        summaries = _summaries(rows.load(recipe, overrides=overrides))
        return DataSummaries(replace(each, files=tuple(map(rows.named, each.files))) for each in summaries)


def _summaries(recipe: Recipe) -> list[SplitSummary]:
    folder = resolve_encoder(recipe.encoder.name)
    tokenizer, longest = load_tokenizer(folder), read_folder_config(folder).max_length
    summaries = []
    for task in recipe.tasks.values():
        train: set[Row] = set()
        for spec in _sets_and_splits(task):
            if spec.files.split == "train" or has_rows(task, spec.files.split):
                # Rows without text or label are findings here, not errors.
                dataset = load_rows(replace(spec, files=replace(spec.files, bad_rows="drop")), tokenizer)
                rows = [normal_row(row) for row in zip(*dataset.texts, strict=True)]
                summary = _summarise(spec, dataset, rows, train, tokenizer)
                if dataset.split == "train":
                    train |= set(rows)
                    summary = replace(summary, overlap=count_overlap(task, dataset, tokenizer))
                if dataset.split == "train" and spec.name == task.name:
                    found = advice(task, summary, automatic=recipe.training.auto, longest=longest)
                    summary = replace(summary, advice=tuple(found))
                summaries.append(summary)
    return summaries


def _sets_and_splits(task: Task) -> list[SetSpec]:
    """Return the training sets of a task, then its dev and test rows, which are read as its own training set is."""
    sets = sets_of(task)
    dev, test = (replace(sets[task.name], files=files_of(task, split)) for split in ("dev", "test"))
    return [*(each for each in sets.values() if not each.swapped), dev, test]


def label_shares(summary: SplitSummary) -> str:
    """Describe the distribution of the labels in one short line."""
    if not len(summary.labels):
        return "none"
    return summary.target.spread(summary.labels)


def _cells(summary: SplitSummary) -> list[str]:
    lengths = summary.lengths
    counts = (summary.truncated, summary.empty, summary.duplicates, summary.leaked)
    return [
        summary.name,
        summary.split,
        f"{summary.rows:,}",
        label_shares(summary),
        f"{sum(lengths) / len(lengths):.0f} / {max(lengths)}",
        *(f"{count:,}" for count in counts),
        ", ".join(f"{kind} {count:,}" for kind, count in summary.shared) or "–",
    ]


def write_data_report(path: Path, title: str, summaries: Sequence[SplitSummary]) -> None:
    """Write the HTML page of a data check."""
    write_text(path, render_data_report(title, summaries))


def _summarise(
    spec: SetSpec, dataset: Dataset, rows: list[Row], train: set[Row], tokenizer: TextTokenizer
) -> SplitSummary:
    lengths = sequence_lengths(dataset.tokens, tokenizer.template, max_length=None, siamese=spec.siamese)
    leaked = [index for index, row in enumerate(rows) if row in train]
    repeated, conflicting = _repeated(rows, dataset)
    examples = [
        *([f"{plural(dataset.unpaired, 'premise')} left out: {UNPAIRED}."] if dataset.unpaired else []),
        *(f"Also in train: {_shown(dataset, index)}" for index in leaked[:EXAMPLES]),
        *(f"Duplicate: {_shown(dataset, index)}" for index in repeated[:EXAMPLES]),
        *(f"Duplicate with another label: {_shown(dataset, index)}" for index in conflicting[:EXAMPLES]),
    ]
    return SplitSummary(
        name=spec.name,
        split=dataset.split,
        files=tuple(dataset.files),
        rows=len(dataset),
        labels=np.array([]) if dataset.labels is None else dataset.labels,
        target=spec.files.target,
        lengths=lengths,
        max_length=spec.max_length,
        truncated=int((lengths > spec.max_length).sum()),
        duplicates=len(repeated),
        empty=dataset.dropped,
        leaked=len(leaked),
        examples=examples,
        dropped=dataset.unmapped,
    )


def _repeated(rows: list[Row], dataset: Dataset) -> tuple[list[int], list[int]]:
    """Return the rows whose texts occurred before, and those of them that have another label."""
    first: dict[Row, int] = {}
    repeated, conflicting = [], []
    for index, row in enumerate(rows):
        if row not in first:
            first[row] = index
            continue
        repeated.append(index)
        if dataset.labels is not None and (dataset.labels[index] != dataset.labels[first[row]]).any():
            conflicting.append(index)
    return repeated, conflicting


def _shown(dataset: Dataset, index: int) -> str:
    texts = " | ".join(str(column[index]) for column in dataset.texts)
    return f"{dataset.task} {dataset.split} {dataset.ids[index]}: {texts[:160]}"
