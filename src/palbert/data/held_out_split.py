"""Held-out rows: divide the training rows of a task into train and dev, with equal texts on one side."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from palbert.data.dataset import Dataset, load_dataset
from palbert.data.row_keys import numbered, text_keys
from palbert.data.strata import strata_of
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.tasks.held_out import AUTO, HeldOut
from palbert.tasks.sets import DataFiles

log = logging.getLogger(__name__)

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

SHARE, MOST, FEW = 0.1, 5000, 5
"""Unless given: this share of the rows, at most so many, and of every class so many, or a quarter if it has few."""


def load_part(files: DataFiles, tokenizer: TextTokenizer) -> Dataset:
    """Read and tokenize files, and return the rows of the split that they are read for.

    Train and dev rows of the same files share one entry of the token cache.
    """
    dataset = load_dataset(files, tokenizer)
    if files.held_out is None:
        return dataset
    dev = held_out_rows(dataset, files)
    if files.split == "train":
        return dataset.take(np.flatnonzero(~dev))
    # Rows that were left out are counted with the training rows, and weights are for training.
    return replace(dataset.take(np.flatnonzero(dev)), dropped=0, unmapped=0, weights=None)


def held_out_rows(dataset: Dataset, files: DataFiles) -> Mask:
    """Return which rows are held out; rows with equal texts, and pairs that share a text, are on one side.

    If so many rows are connected that this leaves too few to choose from, only equal rows are kept together.

    Raises:
        DataError: All rows have the same texts.
    """
    assert files.held_out is not None, "rows are held out"
    texts = numbered(np.concatenate([text_keys(texts) for texts in dataset.texts])).reshape(len(dataset.texts), -1)
    strata = strata_of(dataset, files.target)
    for number, group in enumerate(_groupings(texts)):
        found = _choose(_Groups(group, strata), files.held_out)
        if found is not None:
            if number:
                log.info(
                    "%s: most of its pairs are connected by shared texts, so only equal pairs are kept on one side of "
                    "the split: some texts of dev are also in train",
                    files.task,
                )
            return found
    short = files.held_out.short
    wanted = "any" if short == AUTO else f"{short:,}" if isinstance(short, int) else str(short)
    raise DataError(
        f"{', '.join(dataset.files)}: too few different texts among {len(dataset):,} rows to hold out {wanted} as dev "
        "and train on the others.",
        hint=f'Give more rows, or a dev file: tasks.{files.task}.dev = "dev.csv"',
    )


class _Groups:
    """Groups of rows that stay together, each in one stratum: the rarest one of its rows."""

    def __init__(self, group: Integers, strata: Integers) -> None:
        self.group = group  # (rows,)
        self.sizes = np.bincount(group)
        frequency = np.bincount(strata)
        order = np.argsort(-frequency[strata], kind="stable")
        self.stratum = np.zeros(len(self.sizes), dtype=np.int64)
        self.stratum[group[order]] = strata[order]  # the last one written is the rarest
        self.rows = np.bincount(self.stratum, weights=self.sizes, minlength=len(frequency)).astype(np.int64)

    def shuffled(self, seed: int) -> Integers:
        """Return the groups by stratum and then by size; equally large ones are in random order."""
        random = np.random.default_rng(seed).random(len(self.sizes))
        return np.lexsort((random, self.sizes, self.stratum))

    def mask(self, chosen: Integers) -> Mask:
        """Return which rows are in the chosen groups."""
        found = np.zeros(len(self.sizes), dtype=np.bool_)
        found[chosen] = True
        return found[self.group]


def _groupings(texts: Integers) -> Iterator[Integers]:
    """Number the rows by group: connected by shared texts, and for pairs as a fallback by equal pairs.

    Args:
        texts: The number of each text, in order of first occurrence, (columns, rows).
    """
    yield _ranked(_connected(texts)[texts[0]])
    if len(texts) > 1:
        pairs = np.sort(texts, axis=0)
        yield np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _ranked(values: Integers) -> Integers:
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _connected(texts: Integers) -> Integers:
    """Return for each text the least number of its component: texts of one row are connected."""
    parent = np.arange(int(texts.max()) + 1)
    first = texts[0]
    while len(texts) > 1:
        before = parent.copy()
        for other in texts[1:]:
            least = np.minimum(parent[first], parent[other])
            for place in (first, other, parent[first], parent[other]):
                np.minimum.at(parent, place, least)
        while not np.array_equal(parent, jumped := parent[parent]):
            parent = jumped
        if np.array_equal(parent, before):
            break
    return parent


def _choose(groups: _Groups, held_out: HeldOut) -> Mask | None:
    """Return the rows of dev; None if the groups are too large to choose from."""
    if held_out.folds is not None and held_out.fold is not None:
        return _fold(groups, fold=held_out.fold, folds=held_out.folds, seed=held_out.seed)
    return _sample(groups, held_out)


def _fold(groups: _Groups, *, fold: int, folds: int, seed: int) -> Mask | None:
    """Deal the groups out like cards, stratum by stratum and small ones first; each row is in one fold."""
    if len(groups.sizes) < folds or groups.sizes.max() > len(groups.group) / folds + 1:
        return None
    order = groups.shuffled(seed)
    return groups.mask(order[fold - 1 :: folds])


def _sample(groups: _Groups, held_out: HeldOut) -> Mask | None:
    """Choose groups from each stratum, evenly over their sizes, until the wanted rows are reached."""
    rows = len(groups.group)
    automatic = held_out.share is None and held_out.rows is None
    share = SHARE if automatic else held_out.share
    total = round(share * rows) if share is not None else held_out.rows
    assert total is not None, "either a share or a number of rows is given"
    total = max(1, min(total, MOST) if automatic else total)
    wanted = _per_stratum(groups.rows, total, few=FEW if automatic else 1)
    largest = max(1, int(wanted.sum()) // 2)  # a group that would be most of dev is trained on
    order = groups.shuffled(held_out.seed)
    order = order[groups.sizes[order] <= largest]
    if groups.sizes[order].sum() < min(2 * total, rows // 2) or len(order) < 2 or total >= rows:
        return None
    draw = np.random.default_rng([held_out.seed, 1])
    chosen = [
        _evenly(own, groups.sizes[own], int(wanted[stratum]), start=draw.random())
        for stratum, own in _by_stratum(order, groups.stratum)
    ]
    found = np.concatenate(chosen)
    return groups.mask(found if len(found) else order[:1])


def _by_stratum(order: Integers, stratum: Integers) -> Iterator[tuple[int, Integers]]:
    for own in np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1):
        yield int(stratum[own[0]]), own


def _evenly(groups: Integers, sizes: Integers, wanted: int, *, start: float) -> Integers:
    """Choose every n-th group such that they have about the wanted number of rows; one at least is left."""
    count = min(round(wanted / sizes.mean()), len(groups) - 1)
    if count < 1:
        return groups[:0]
    chosen: Integers = groups[((np.arange(count) + start) * len(groups) / count).astype(np.int64)]
    return chosen


def _per_stratum(rows: Integers, total: int, *, few: int) -> Integers:
    """Divide the wanted rows among the strata in proportion, by largest remainders; each has a few, if it can.

    Args:
        rows: The rows of each stratum.
        total: The wanted rows; more are chosen where the few of every stratum add up to more.
        few: The rows that each stratum has at least, or a quarter of its rows if that is less; one in any case.
    """
    exact = rows * (total / rows.sum())
    wanted: Integers = np.floor(exact).astype(np.int64)
    rest = total - int(wanted.sum())
    wanted[np.argsort(wanted - exact, kind="stable")[:rest]] += 1
    least = np.where(rows > 1, np.clip(rows // 4, 1, few), 0)
    if few == 1 and least.sum() > total:  # fewer rows are asked for than there are strata
        return wanted
    added = np.maximum(least - wanted, 0)
    wanted += added
    if few == 1:  # a number that was asked for is kept: the largest strata give what the smallest got
        for _ in range(int(added.sum())):
            wanted[np.argmax(wanted - least)] -= 1
    return wanted
