"""Buckets and filling: a few shapes for nearly all batches, and the same losses and gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from palbert.batch import repeat_of
from palbert.build.sampling import choose_buckets
from palbert.training.buckets import DEVIATIONS, STEP, Buckets

LENGTHS = np.clip(np.exp(np.random.default_rng(0).normal(3.25, 0.45, 5000)), 3, 128).astype(np.int64)
Start = Callable[..., Any]


@pytest.mark.parametrize("rows", [8, 16, 32, 256])
def test_a_few_sizes_hold_nearly_all_batches_with_little_filling(rows: int) -> None:
    buckets, generator = Buckets(LENGTHS, longest=128), np.random.default_rng(1)
    assert 1 <= len(buckets.sizes(rows)) <= len(DEVIATIONS)
    assert all(size % STEP == 0 for size in buckets.sizes(rows))
    levels: Counter[int | None] = Counter()
    filled = tokens = 0
    for _ in range(1000):
        chosen = generator.choice(len(LENGTHS), rows, replace=False)
        level = buckets.level(chosen)
        levels[level] += 1
        if level is not None:
            assert buckets.size(rows, level) >= LENGTHS[chosen].sum()
            filled += buckets.size(rows, level)
            tokens += LENGTHS[chosen].sum()
    assert levels[None] <= 10
    assert filled < (1.3 if rows == 8 else 1.2 if rows == 16 else 1.15) * tokens


def test_rows_of_one_length_have_one_size() -> None:
    buckets = Buckets(np.full(100, 20), longest=20)
    assert buckets.sizes(8) == (160,)
    assert buckets.level(np.arange(8)) == 0


def test_a_batch_longer_than_every_size_has_no_level() -> None:
    lengths = np.concatenate([np.full(995, 10), np.full(5, 500)])
    buckets = Buckets(lengths, longest=500)
    assert buckets.level(np.arange(4)) == 0
    assert buckets.level(np.arange(995, 999)) is None


@pytest.fixture
def steps(start: Start) -> Callable[..., Any]:
    """Return losses and gradients of a step, with or without filling."""

    def of(*, fills: bool, **settings: Any) -> tuple[dict[str, float], list[torch.Tensor | None], Any]:
        run = start(f"run-{fills}", **settings)
        trainer = run.trainer
        if fills:
            trainer.feed.buckets = choose_buckets(trainer.feed.sets, trainer.feed.template)
        run.model.eval()  # dropout would draw for the filling too
        sets = ("sst", "quora", "sts")
        batches = trainer.feed(sets, dict.fromkeys(sets, 0))
        gradients: list[torch.Tensor | None] = []
        trainer.optimizer.register_step_pre_hook(
            lambda *_: gradients.extend(None if p.grad is None else p.grad.clone() for p in trainer.parameters)
        )
        losses = trainer.step(batches)
        return {name: float(loss) for name, loss in losses.items()}, gradients, batches

    return of


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"adapters": {"name": "pal", "size": 12, "heads": 2}},
        {"objectives": [{"name": "proximal"}]},
        {"training": {"accumulation": 2}},
        {"training": {"gradients": "pcgrad"}},
        {"objectives": ["rdrop", {"name": "simcse", "tasks": ["sst"]}], "training": {"gradients": "pcgrad"}},
    ],
    ids=["plain", "pal", "proximal", "accumulation", "pcgrad", "twice"],
)
def test_filling_changes_neither_losses_nor_gradients(steps: Callable[..., Any], settings: dict[str, Any]) -> None:
    losses, gradients, batches = steps(fills=False, **settings)
    filled_losses, filled_gradients, filled = steps(fills=True, **settings)
    assert sum(batch.tokens for batch in filled) > sum(batch.tokens for batch in batches)
    assert all(part.filling for batch in filled for part in batch.parts.values())
    assert filled_losses == pytest.approx(losses, rel=1e-5)
    for one, other in zip(gradients, filled_gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_filled_batches_of_similar_rows_have_the_same_shapes(start: Start) -> None:
    feed = start().trainer.feed
    sets = ("sst", "quora", "sts")
    plain = {feed(sets, dict.fromkeys(sets, number))[0].kind for number in range(20)}
    feed.buckets = choose_buckets(feed.sets, feed.template)
    filled = [feed(sets, dict.fromkeys(sets, number))[0] for number in range(20)]
    usual = [batch for batch in filled if all(part.filling for part in batch.parts.values())]
    assert len(usual) >= 18
    assert len({batch.kind for batch in usual}) <= len(DEVIATIONS) < len(plain)


def test_a_selection_of_tasks_keeps_its_filling(start: Start) -> None:
    feed = start().trainer.feed
    feed.buckets = choose_buckets(feed.sets, feed.template)
    sets = ("sst", "quora", "sts")
    [batch] = feed(sets, dict.fromkeys(sets, 0))
    part = batch.only(["quora"])
    [alone] = replace_level(feed, batch)
    assert torch.equal(part.ids, alone.ids)
    assert torch.equal(part.starts, alone.starts)
    assert part.parts["quora"].slots == alone.parts["quora"].slots


@pytest.mark.parametrize("adapters", [None, {"name": "pal", "size": 12, "heads": 2}, "houlsby"], ids=str)
def test_repeated_parts_have_equal_outputs(start: Start, adapters: Any) -> None:
    run = start(**({"adapters": adapters} if adapters else {}))
    feed, model = run.trainer.feed, run.model.eval()
    feed.buckets = choose_buckets(feed.sets, feed.template)
    sets = ("sst", "quora", "sts")
    [batch] = feed(sets, dict.fromkeys(sets, 0))
    wide = batch.with_repeats(["quora", "sst"])
    assert (
        list(wide.parts) == ["sst", repeat_of("sst"), "quora", repeat_of("quora"), "sts"]
        and batch.with_repeats([]) is batch
    )
    assert wide.starts[-1] == wide.tokens and wide.parts[repeat_of("quora")].task == "quora"
    found = model(wide)
    for name, outputs in model(batch).items():
        torch.testing.assert_close(found[name], outputs)
        if name != "sts":
            torch.testing.assert_close(found[repeat_of(name)], outputs)


def replace_level(feed: Any, batch: Any) -> Any:
    """Collate only quora's rows, filled up to their size in the batch."""
    from palbert.data.collate import collate

    portion = feed.sets["quora"].portion(feed.streams["quora"].batch(0))
    tokens = batch.parts["quora"].tokens
    size = tokens.stop - tokens.start
    buckets = feed.buckets["quora"]
    level = next(level for level in range(len(DEVIATIONS)) if buckets.size(len(portion.rows), level) == size)
    return [collate([replace(portion, filling=feed._filling(portion, level))], feed.template)]
