"""Triplets: an anchor, a text it entails and one that contradicts it, made from labelled pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from palbert.data.dataset import Dataset
from palbert.data.row_keys import numbered, text_keys
from palbert.errors import DataError

Integers = NDArray[np.int64]


def make_triplets(pairs: Dataset) -> Dataset:
    """Match the i-th entailment of each premise with its i-th contradiction, in the order of the files.

    Args:
        pairs: Premise and hypothesis, with label 1 for entailment and 0 for contradiction.

    Returns:
        Premise, entailment and contradiction, without labels, under the id of the entailment.
    """
    assert pairs.labels is not None, "triplets are made from labelled pairs"
    premise = numbered(text_keys(pairs.texts[0], exact=True))
    place = _place(2 * premise + pairs.labels)  # among the rows with the same premise and label
    entailments, contradictions = np.flatnonzero(pairs.labels == 1), np.flatnonzero(pairs.labels == 0)
    key = premise * len(pairs) + place  # equal for rows that make a triplet
    _, first, second = np.intersect1d(key[entailments], key[contradictions], assume_unique=True, return_indices=True)
    order = np.argsort(first)
    positives, negatives = entailments[first[order]], contradictions[second[order]]
    if not len(positives):
        raise DataError(
            f"{', '.join(pairs.files)}: no premise has both an entailment and a contradiction.",
            hint="Triplets need both; is the label mapping right?",
        )
    return replace(
        pairs,
        ids=pairs.ids.take(positives),
        texts=(pairs.texts[0].take(positives), pairs.texts[1].take(positives), pairs.texts[1].take(negatives)),
        tokens=(pairs.tokens[0].take(positives), pairs.tokens[1].take(positives), pairs.tokens[1].take(negatives)),
        labels=None,
        unpaired=int(premise.max()) + 1 - len(np.unique(premise[positives])),
    )


def _place(keys: Integers) -> Integers:
    """Return how many equal keys precede each key."""
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.diff(keys[order], prepend=-1))
    counts = np.diff(begins, append=len(keys))
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.arange(len(keys)) - np.repeat(begins, counts)
    return place
