"""What the log says of a run's data: rows, what was left out, class shares, and rows shared with dev or test."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from palbert.build import count_overlap
from palbert.data.collate import count_truncated
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.objectives.logit_adjustment import class_shares
from palbert.recipe.schema import Recipe
from palbert.tasks.spec import Task

log = logging.getLogger(__name__)


def log_data(recipe: Recipe, data: Mapping[str, Mapping[str, Dataset]], tokenizer: TextTokenizer) -> None:
    """Log the rows of every set and split."""
    for split, datasets in data.items():
        for name, dataset in datasets.items():
            spec = recipe.sets[name]
            cut = count_truncated(dataset.tokens, tokenizer.template, max_length=spec.max_length, siamese=spec.siamese)
            details = [f"{len(dataset):,} {'triplets' if spec.triplets else 'rows'}"]
            details += [f"{cut:,} cut at {spec.max_length} tokens"] if cut else []
            details += [f"{dataset.dropped:,} without text or label left out"] if dataset.dropped else []
            details += [f"{dataset.unmapped:,} left out by the label mapping"] if dataset.unmapped else []
            lacking = f"{dataset.unpaired:,} premises without entailment or contradiction left out"
            details += [lacking] if dataset.unpaired else []
            overlap = f"{dataset.overlapping:,} left out that {' or '.join(spec.task.drop_overlap)} has"
            details += [overlap] if dataset.overlapping else []
            log.info("%s %s: %s", name, split, ", ".join(details))
    for name, dataset in data["train"].items():
        _log_shares(name, recipe.sets[name].task, dataset)
        _log_overlap(name, recipe.sets[name].task, dataset)


def _log_shares(name: str, task: Task, dataset: Dataset) -> None:
    """Log the class shares of a set with a prior, and the prior."""
    if task.prior and dataset.labels is not None:
        found, wanted = (
            " / ".join(f"{share:.1%}" for share in shares)
            for shares in (class_shares(dataset.labels, len(task.classes)), task.prior)
        )
        log.info("%s train: class shares %s, trained to answer for %s", name, found, wanted)


def _log_overlap(name: str, task: Task, dataset: Dataset) -> None:
    """Log how many rows a set shares with dev and test, unless the recipe trains on those files."""
    for kind, rows in count_overlap(task, dataset, local=True).items():
        meant = all(source in task.train for source in getattr(task, kind.removesuffix("-texts")))
        if rows and not meant and not kind.endswith("-texts"):
            shared = f"{rows:,} of its rows {'is' if rows == 1 else 'are'} in {kind} too"
            log.info('%s train: %s; tasks.%s.drop_overlap = ["%s"] leaves them out', name, shared, task.name, kind)
