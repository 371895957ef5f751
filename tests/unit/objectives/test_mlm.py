"""Masked words: which are chosen, how they are replaced, and what is predicted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from palbert.batch import PackedBatch, Part
from palbert.data.collate import Portion, collate
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import TextTokenizer
from palbert.model.masked import load_masked
from palbert.objectives.mlm import MLM, Masking

WORDS = range(5, 1000)
MASK, CLS, SEP = 4, 2, 3


def masking_of(share: float = 0.15) -> Masking:
    return Masking(share=share, mask_id=MASK, ordinary_ids=WORDS, vocabulary_size=1000)


def batch_of(rows: list[list[int]]) -> PackedBatch:
    """Pack rows of words between [CLS] and [SEP]."""
    full = [[CLS, *row, SEP] for row in rows]
    lengths = [len(row) for row in full]
    return PackedBatch(
        ids=torch.tensor([number for row in full for number in row], dtype=torch.int32),
        positions=torch.cat([torch.arange(length, dtype=torch.int32) for length in lengths]),
        types=torch.zeros(sum(lengths), dtype=torch.int32),
        starts=torch.tensor([0, *lengths]).cumsum(0).int(),
        max_length=max(lengths),
        parts={"mlm": Part("mlm", slice(0, len(rows)), slice(0, sum(lengths)))},
    )


def random_rows(rows: int, length: int) -> list[list[int]]:
    return np.random.default_rng(3).integers(WORDS.start, WORDS.stop, (rows, length)).tolist()


def places_by_row(masked: Any) -> list[int]:
    """Count the chosen positions of every sequence."""
    rows = torch.bucketize(masked.places[masked.chosen], masked.batch.starts[1:], right=True)
    return torch.bincount(rows, minlength=masked.batch.sequences).tolist()


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("share", [0.15, 0.4])
@pytest.mark.parametrize("length", [13, 40])
def test_the_share_of_the_chosen_tokens_is_correct_on_average(share: float, length: int) -> None:
    rows = 2000
    counts = places_by_row(masking_of(share)(batch_of(random_rows(rows, length))))
    assert set(counts) <= {math.floor(share * length), math.ceil(share * length)}
    assert sum(counts) / rows / length == pytest.approx(share, rel=0.02)


def test_every_position_of_a_text_is_equally_likely() -> None:
    batch = batch_of(random_rows(4000, 20))
    places = masking_of()(batch).places
    found = torch.bincount(batch.positions[places].long(), minlength=22).tolist()
    assert found[0] == found[21] == 0
    assert stats.chisquare(found[1:21]).pvalue > 0.001


def test_of_the_chosen_tokens_80_10_10_percent_are_hidden_replaced_and_kept() -> None:
    batch = batch_of(random_rows(4000, 30))
    masked = masking_of()(batch)
    shown = masked.batch.ids[masked.places]
    hidden, kept = shown == MASK, shown == masked.labels
    found = [int(hidden.sum()), int((~hidden & ~kept).sum()), int(kept.sum())]
    replaced = 0.1 * (1 - 1 / len(WORDS))  # a replacement may be the word itself
    expected = [0.8, replaced, 0.2 - replaced]
    assert stats.chisquare(found, [share * sum(found) for share in expected]).pvalue > 0.001


def test_replacements_cover_all_ordinary_words_and_nothing_else() -> None:
    masked = masking_of(0.9)(batch_of(random_rows(3000, 50)))
    shown = masked.batch.ids[masked.places]
    replaced = shown[(shown != MASK) & (shown != masked.labels)]
    assert set(replaced.tolist()) == set(WORDS)
    assert stats.chisquare(torch.bincount(replaced.long())[WORDS.start :].tolist()).pvalue > 0.001


def test_special_tokens_are_never_chosen_and_nothing_else_changes() -> None:
    rows = [[7, SEP, 8, 0, CLS, MASK, 1], *random_rows(300, 9)]  # special tokens inside a text too
    batch = batch_of(rows)
    masked = masking_of(0.9)(batch)
    assert int(batch.ids[masked.places].min()) >= WORDS.start
    assert torch.equal(masked.labels, batch.ids[masked.places].long())
    rest = torch.ones(batch.tokens, dtype=torch.bool).index_fill(0, masked.places, False)
    assert torch.equal(masked.batch.ids[rest], batch.ids[rest])
    assert len(set(masked.places.tolist())) == len(masked.places)


def test_at_least_one_word_is_chosen_in_every_text_that_has_words() -> None:
    batch = batch_of([[9], [9, 10], [], [SEP, CLS], [11, 12, 13]])
    for _ in range(20):
        assert places_by_row(masking_of(0.01)(batch)) == [1, 1, 0, 0, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_draws_from_the_same_distribution(tiny_encoder: Path) -> None:
    rows = 2000
    batch, masking = batch_of([*random_rows(rows, 13), [9], []]).to("cuda"), masking_of().to("cuda")
    masked = masking(batch)
    counts = places_by_row(masked)
    assert set(counts[:rows]) == {1, 2} and counts[rows:] == [1, 0]
    assert sum(counts[:rows]) / rows / 13 == pytest.approx(0.15, rel=0.02)
    assert int(batch.ids[masked.places[masked.chosen]].min()) >= WORDS.start
    fixed = [masking(batch, torch.Generator("cuda").manual_seed(4)).batch.ids for _ in range(2)]
    assert torch.equal(*fixed)
    model = load_masked(tiny_encoder).to("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = MLM(masking)(model, batch_of([[7, 8, 9], [10, 11]]).to("cuda"))["mlm"]
    loss.backward()
    assert loss.dtype == torch.float32 and loss.isfinite()


def test_masks_differ_between_draws_and_depend_only_on_the_generator() -> None:
    masking, batch = masking_of(), batch_of(random_rows(20, 20))
    state = torch.get_rng_state()
    first, second = masking(batch), masking(batch)
    torch.set_rng_state(state)
    again = masking(batch)
    assert not torch.equal(first.batch.ids, second.batch.ids)
    assert torch.equal(first.batch.ids, again.batch.ids) and torch.equal(first.places, again.places)
    fixed = [masking(batch, torch.Generator().manual_seed(4)).batch.ids for _ in range(2)]
    assert torch.equal(*fixed)


@pytest.mark.parametrize("share", [0.01, 0.15, 0.9])
def test_a_fixed_number_of_places_does_not_change_the_chosen_words(share: float) -> None:
    rows = [*random_rows(40, 13), *random_rows(5, 1), [], [SEP]]
    batch, masking = batch_of(rows), masking_of(share)
    numbers = set()
    for seed in range(10):
        free, fixed = (masking(batch, torch.Generator().manual_seed(seed), fixed=fixed) for fixed in (False, True))
        numbers.add(len(fixed.places))
        assert torch.equal(fixed.places[fixed.chosen], free.places)
        assert torch.equal(fixed.labels, batch.ids[fixed.places].long())
        # Other tokens do not change.
        rest = torch.ones(batch.tokens, dtype=torch.bool).index_fill(0, free.places, False)
        assert torch.equal(fixed.batch.ids[rest], batch.ids[rest])
    assert len(numbers) == 1


def test_a_masking_has_no_state() -> None:
    assert MLM(masking_of()).state_dict() == {}


def test_the_loss_is_the_mean_over_the_chosen_words(tiny_encoder: Path, tokenizer: TextTokenizer) -> None:
    model = load_masked(tiny_encoder).eval()
    size = model.encoder.config.vocabulary_size
    masking = Masking(
        share=0.3, mask_id=tokenizer.mask_id(), ordinary_ids=tokenizer.ordinary_ids(), vocabulary_size=size
    )
    tokens = (Ragged.from_rows([[7, 8, 9, 10, 11], [12, 13, 14]]),)
    batch = collate([Portion("mlm", "mlm", tokens, np.arange(2), 16, share=0.5)], tokenizer.template)
    masked = masking(batch, torch.Generator().manual_seed(2))
    total = MLM(masking).of_words(model, masked)
    # The slow way: the softmax at every position, then the chosen ones.
    scores = model(masked.batch, torch.arange(batch.tokens)).log_softmax(1)
    assert total.item() == pytest.approx(-scores[masked.places, masked.labels].sum().item(), rel=1e-6)
    state = torch.get_rng_state()
    loss = MLM(masking)(model, batch)["mlm"]
    torch.set_rng_state(state)
    masked = masking(batch)
    total = MLM(masking).of_words(model, masked)
    assert loss.item() == pytest.approx(0.5 * total.item() / len(masked.places))


def test_a_batch_without_words_has_a_loss_of_0(tiny_encoder: Path) -> None:
    model = load_masked(tiny_encoder)
    loss = MLM(masking_of())(model, batch_of([[], [SEP]]))["mlm"]
    loss.backward()
    assert loss.item() == 0


def test_the_special_tokens_of_a_tokenizer_are_not_ordinary_words(tokenizer: TextTokenizer) -> None:
    ordinary = set(tokenizer.ordinary_ids())
    names = {name: tokenizer.tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]", "[MASK]")}
    assert not ordinary & set(names.values())
    assert tokenizer.mask_id() == names["[MASK]"]
    assert len(ordinary) == tokenizer.tokenizer.get_vocab_size() - 3
