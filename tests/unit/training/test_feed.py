"""Feed: the rows of a step, whole or in pieces."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from palbert.batch import Part
from palbert.build.sampling import make_sampler
from palbert.data.dataset import load_dataset
from palbert.data.streams import Stream
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.recipe.load import make_recipe
from palbert.registry import SAMPLERS
from palbert.runtime.distributed import Ranks
from palbert.tasks.sets import files_of
from palbert.training.feed import Feed, Sets

BATCH = 7


@pytest.fixture
def sources(tokenizer: TextTokenizer, tmp_path: Path) -> Sets:
    found = {}
    for name, task in make_recipe({"data": "samples", "tasks": ["sst", "sts"]}).tasks.items():
        dataset = load_dataset(files_of(task, "dev"), tokenizer, cache=tmp_path)
        found[name] = TrainingSet(name, name, dataset, max_length=16, batch_size=BATCH)
    return found


def labels_of(part: Part) -> torch.Tensor:
    assert part.labels is not None
    return part.labels


def make(sources: Sets, tokenizer: TextTokenizer, pieces: int) -> Feed:
    return Feed(sources, seed=0, template=tokenizer.template, device=torch.device("cpu"), accumulation=pieces)


@pytest.mark.parametrize("draw", [0, 1, 30])
def test_the_rows_are_the_next_ones_of_the_stream(sources: Sets, tokenizer: TextTokenizer, draw: int) -> None:
    (batch,) = make(sources, tokenizer, 1)(("sts",), {"sst": 99, "sts": draw})
    dataset = sources["sts"].rows
    rows = Stream("sts", rows=len(dataset), batch_size=BATCH, seed=0).batch(draw)
    labels = batch.parts["sts"].labels
    assert dataset.labels is not None
    assert labels is not None
    assert labels.tolist() == dataset.labels[rows].tolist()
    assert batch.parts["sts"].share == 1.0
    assert batch.max_length <= 16


@pytest.mark.parametrize("pieces", [2, 3, 7, 20])
def test_pieces_hold_the_same_rows_and_their_shares_add_up(
    sources: Sets, tokenizer: TextTokenizer, pieces: int
) -> None:
    draws = {"sst": 1, "sts": 2}
    (whole,) = make(sources, tokenizer, 1)(("sst", "sts"), draws)
    cut = make(sources, tokenizer, pieces)(("sst", "sts"), draws)
    assert len(cut) == min(pieces, BATCH)
    for task in draws:
        parts = [batch.parts[task] for batch in cut]
        assert sum(part.share for part in parts) == pytest.approx(1.0)
        assert [part.share for part in parts] == [pytest.approx(part.examples / BATCH) for part in parts]
        assert torch.equal(torch.cat([labels_of(part) for part in parts]), labels_of(whole.parts[task]))
        ids = torch.cat([batch.ids[batch.parts[task].tokens] for batch in cut])
        assert torch.equal(ids, whole.ids[whole.parts[task].tokens])


@pytest.mark.parametrize(("size", "pieces"), [(1, 1), (2, 1), (3, 2), (7, 3)])
def test_processes_divide_the_rows_among_themselves(
    sources: Sets, tokenizer: TextTokenizer, size: int, pieces: int
) -> None:
    draws = {"sst": 1, "sts": 2}
    (whole,) = make(sources, tokenizer, 1)(("sst", "sts"), draws)
    batches = [
        batch
        for rank in range(size)
        for batch in of_rank(sources, tokenizer, rank, size, pieces)(("sst", "sts"), draws)
    ]
    for task in draws:
        parts = [batch.parts[task] for batch in batches if task in batch.parts]
        assert sum(part.share for part in parts) == pytest.approx(1.0)
        assert [part.share for part in parts] == [pytest.approx(part.examples / BATCH) for part in parts]
        assert torch.equal(torch.cat([labels_of(part) for part in parts]), labels_of(whole.parts[task]))


def test_a_process_without_rows_gets_one_with_share_0(sources: Sets, tokenizer: TextTokenizer) -> None:
    shares = []
    for rank in range(BATCH + 2):
        [batch] = of_rank(sources, tokenizer, rank, BATCH + 2, 1)(("sst", "sts"), {"sst": 0, "sts": 0})
        assert [part.examples for part in batch.parts.values()] == [1, 1]
        shares.append(batch.parts["sst"].share)
    assert shares == [pytest.approx(1 / BATCH)] * BATCH + [0.0, 0.0]


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_any_number_of_processes_takes_every_row_of_one_process_once(
    sources: Sets, tokenizer: TextTokenizer, name: str
) -> None:
    numbered = {
        key: replace(each, rows=replace(each.rows, labels=np.arange(len(each.rows))))  # type: ignore[type-var]
        for key, each in sources.items()
    }
    training = {"sampler": name, "epochs": 2, "steps_per_epoch": 6, "batch_size": BATCH}
    recipe = make_recipe({"data": "samples", "tasks": ["sst", "sts"], "training": training})
    sampler = make_sampler(recipe, rows={key: len(each) for key, each in numbered.items()})
    plan = [sets for epoch in (1, 2) for sets in sampler.epoch(epoch)]
    alone = taken(numbered, tokenizer, plan, size=1, pieces=1)
    assert all(alone)
    for size in range(1, 9):  # 8 processes for 7 rows
        for pieces in (1, 2):
            assert taken(numbered, tokenizer, plan, size=size, pieces=pieces) == alone


def taken(
    sources: Sets, tokenizer: TextTokenizer, plan: list[tuple[str, ...]], *, size: int, pieces: int
) -> list[dict[str, list[int]]]:
    """Return the numbers of the rows that count in each step, those of all processes in the order of ranks."""
    feeds = [of_rank(sources, tokenizer, rank, size, pieces) for rank in range(size)]
    steps, draws = [], dict.fromkeys(sources, 0)
    for sets in plan:
        rows: dict[str, list[int]] = {name: [] for name in sets}
        for feed in feeds:
            for batch in feed(sets, draws):
                for name, part in batch.parts.items():
                    rows[name] += labels_of(part).tolist() if part.share else []
        steps.append(rows)
        feeds[0].count(sets, draws)
    return steps


def of_rank(sources: Sets, tokenizer: TextTokenizer, rank: int, size: int, pieces: int) -> Feed:
    return Feed(
        sources,
        seed=0,
        template=tokenizer.template,
        device=torch.device("cpu"),
        accumulation=pieces,
        ranks=Ranks(rank, size),
    )


PLAN = [("sst",), ("sst", "sts"), ("sts",), ("sst",), ("sst", "sts"), ("sts",), ("sts",)]


def test_prefetched_batches_equal_those_made_one_by_one(sources: Sets, tokenizer: TextTokenizer) -> None:
    draws = {"sst": 3, "sts": 0}
    feed, alone, counted = make(sources, tokenizer, 2), make(sources, tokenizer, 2), dict(draws)
    made = list(feed.ahead(PLAN, draws))
    assert len(made) == len(PLAN) and draws == {"sst": 3, "sts": 0}
    for sets, batches in zip(PLAN, made, strict=True):
        for batch, expected in zip(batches, alone(sets, counted), strict=True):
            assert torch.equal(batch.ids, expected.ids) and torch.equal(batch.starts, expected.starts)
            assert batch.parts.keys() == expected.parts.keys()
            for name, part in batch.parts.items():
                assert torch.equal(labels_of(part), labels_of(expected.parts[name]))
        feed.count(sets, counted)
    assert feed.waited > 0


def test_an_unfinished_feed_leaves_no_thread_behind(sources: Sets, tokenizer: TextTokenizer) -> None:
    feed = make(sources, tokenizer, 1).ahead(PLAN, {"sst": 0, "sts": 0})
    next(feed)
    assert any(thread.name.startswith("feed") for thread in threading.enumerate())
    feed.close()
    assert not any(thread.name.startswith("feed") for thread in threading.enumerate())


def test_an_error_while_batches_are_made_is_raised_in_the_step(
    sources: Sets, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = make(sources, tokenizer, 1)
    monkeypatch.setattr(feed.streams["sts"], "batch", lambda start: {}["nothing"])
    steps = feed.ahead([("sst",), ("sts",), ("sst",)], {"sst": 0, "sts": 0})
    next(steps)
    with pytest.raises(KeyError, match="nothing"):
        next(steps)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_batches_for_a_cuda_device_wait_in_pinned_memory(sources: Sets, tokenizer: TextTokenizer) -> None:
    feed = Feed(sources, seed=0, template=tokenizer.template, device=torch.device("cuda"))
    [batch] = feed._collate(("sst",), {"sst": 0})
    assert batch.ids.is_pinned() and batch.parts["sst"].labels is not None and batch.parts["sst"].labels.is_pinned()
    [[ahead]] = list(feed.ahead([("sst",)], {"sst": 0}))
    assert ahead.ids.is_pinned() and torch.equal(ahead.ids, batch.ids)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_batch_copied_back_from_a_busy_device_is_complete(sources: Sets, tokenizer: TextTokenizer) -> None:
    [batch] = make(sources, tokenizer, 1)(("sst",), {"sst": 0})
    work = torch.randn(4096, 4096, device="cuda")
    there = batch.to("cuda")
    for _ in range(50):
        work = work @ work
    back = there.to("cpu")  # immediately, while the device is still working
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(back._tensors(), batch._tensors(), strict=True))
