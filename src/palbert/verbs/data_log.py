"""The log of a run's data: rows, rows left out, class shares, and rows shared with dev or test."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import numpy as np

from palbert.build import count_overlap
from palbert.data.collate import count_truncated
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.objectives.logit_adjustment import class_shares
from palbert.recipe.schema import Recipe
from palbert.tasks.sets import SetSpec
from palbert.tasks.spec import Task

log = logging.getLogger(__name__)


def log_data(
    recipe: Recipe, sets: Mapping[str, TrainingSet[Dataset]], dev: Mapping[str, Dataset], tokenizer: TextTokenizer
) -> None:
    """Log the rows of every training set and of every task's dev files."""
    for name, dataset in [*((each.name, each.rows) for each in sets.values()), *dev.items()]:
        log.info("%s %s: %s", name, dataset.split, ", ".join(_details(recipe.sets[name], dataset, tokenizer)))
    for name, task in recipe.tasks.items():
        if task.held_out and name in dev:
            log.info("%s", describe_held_out(task, train=sets[name].rows, dev=dev[name]))
    for each in sets.values():
        _log_shares(each.name, recipe.tasks[each.task], each)
        _log_weights(each)
        _log_overlap(each.name, recipe.tasks[each.task], each.rows, tokenizer)


def describe_held_out(task: Task, *, train: Dataset, dev: Dataset) -> str:
    """Say how many of a task's training rows are its dev rows."""
    rows = len(train) + train.overlapping + (0 if task.train_on_dev else len(dev))
    fold = f", fold {task.held_out.fold} of {task.held_out.folds}" if task.held_out and task.held_out.fold else ""
    trained = ", and trained on as well" if task.train_on_dev else ""
    share = f"{len(dev):,} of {rows:,} training rows ({len(dev) / rows:.1%})"
    return f"{task.name}: {share} are held out as dev{fold}{trained}."


def _details(spec: SetSpec, dataset: Dataset, tokenizer: TextTokenizer) -> Iterator[str]:
    """Yield how many rows there are, how many are cut, and how many were left out and why."""
    cut = count_truncated(dataset.tokens, tokenizer.template, max_length=spec.max_length, siamese=spec.siamese)
    yield f"{len(dataset):,} {'triplets' if spec.triplets else 'rows and swapped copies' if spec.swapped else 'rows'}"
    if cut:
        yield f"{cut:,} cut at {spec.max_length} tokens"
    if dataset.dropped:
        yield f"{dataset.dropped:,} without text or label left out"
    if dataset.unmapped:
        yield f"{dataset.unmapped:,} left out by the label mapping"
    if dataset.unpaired:
        yield f"{dataset.unpaired:,} premises without entailment or contradiction left out"
    if dataset.overlapping:
        yield f"{dataset.overlapping:,} left out because they are in {' or '.join(spec.task.drop_overlap)}"


def _log_shares(name: str, task: Task, each: TrainingSet[Dataset]) -> None:
    """Log the class shares of a set with a prior, and the prior."""
    if task.prior and each.rows.labels is not None:
        found, wanted = (
            " / ".join(f"{share:.1%}" for share in shares)
            for shares in (class_shares(task.target, each.rows.labels, each.weights), task.prior)
        )
        log.info("%s train: class shares %s, trained to answer for %s", name, found, wanted)


def _log_weights(each: TrainingSet[Dataset]) -> None:
    """Log the range of a set's weights, and how many rows of equal weight would give as steady a mean."""
    if each.weights is not None:
        low, high = float(each.weights.min()), float(each.weights.max())
        effective = float(np.square(each.weights.sum()) / np.square(each.weights).sum())  # Kish 1965
        log.info(
            "%s train: row weights %.3g … %.3g (mean 1), as good as %.0f equal rows", each.name, low, high, effective
        )


def _log_overlap(name: str, task: Task, dataset: Dataset, tokenizer: TextTokenizer) -> None:
    """Log how many rows a set shares with dev and test, unless the recipe trains on those files."""
    for kind, rows in count_overlap(task, dataset, tokenizer, local=True).items():
        split = kind.removesuffix("-texts")
        files = getattr(task, split)
        meant = bool(files and all(source in task.train for source in files)) or (split == "dev" and task.train_on_dev)
        if rows and not meant and not kind.endswith("-texts"):
            shared = f"{rows:,} of its rows {'is' if rows == 1 else 'are'} also in {kind}"
            log.info('%s train: %s; tasks.%s.drop_overlap = ["%s"] leaves them out', name, shared, task.name, kind)
