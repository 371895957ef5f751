"""Packed sequences are those that the tokenizers library makes, with its special tokens and truncation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from palbert.batch import PackedBatch
from palbert.data.collate import Portion, collate, count_truncated, sequence_lengths
from palbert.data.tokenizer import TextTokenizer

WORDS = [f"w{number}" for number in range(40)]
SPECIAL = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}
FAMILIES = {
    "bert": processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)),
    "roberta": processors.RobertaProcessing(("[SEP]", 2), ("[CLS]", 1)),
    "template": processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    ),
}


def reference(family: str) -> Tokenizer:
    vocabulary = SPECIAL | {word: number for number, word in enumerate(WORDS, len(SPECIAL))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = FAMILIES[family]
    return tokenizer


def random_texts(generator: np.random.Generator, number: int) -> list[str]:
    return [" ".join(generator.choice(WORDS, size)) for size in generator.integers(0, 15, number)]


def packed_rows(batch: PackedBatch) -> list[tuple[list[int], list[int]]]:
    starts = batch.starts.tolist()
    return [(batch.ids[a:b].tolist(), batch.types[a:b].tolist()) for a, b in itertools.pairwise(starts)]


@pytest.mark.parametrize("max_length", range(5, 21))
@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_and_singles_equal_the_tokenizers_library(family: str, max_length: int) -> None:
    generator = np.random.default_rng(max_length)
    first, second = random_texts(generator, 120), random_texts(generator, 120)
    ours, theirs = TextTokenizer(reference(family)), reference(family)
    theirs.enable_truncation(max_length, strategy="longest_first")
    columns, rows = (ours(first), ours(second)), np.arange(len(first))

    pairs = theirs.encode_batch(list(zip(first, second, strict=True)))
    batch = collate([Portion("pair", "pair", columns, rows, max_length)], ours.template)
    assert packed_rows(batch) == [(pair.ids, pair.type_ids) for pair in pairs]
    lengths = sequence_lengths(columns, ours.template, max_length=max_length, siamese=False)
    assert lengths.tolist() == [len(pair.ids) for pair in pairs]
    assert count_truncated(columns, ours.template, max_length=max_length, siamese=False) == sum(
        bool(pair.overflowing) for pair in pairs
    )

    singles = theirs.encode_batch([*first, *second])
    batch = collate([Portion("siamese", "siamese", columns, rows, max_length, siamese=True)], ours.template)
    assert packed_rows(batch) == [(single.ids, single.type_ids) for single in singles]
