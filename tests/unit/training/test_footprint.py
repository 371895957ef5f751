"""The memory of a step: the plan's largest steps, miniatures in proportion, and what each part of a recipe takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from palbert.batch import PackedBatch
from palbert.model.attention import Sequences
from palbert.training.footprint import Footprint, Load, Prober, largest_loads
from palbert.training.miniature import miniature, scales
from palbert.training.trainer import Trainer

Start = Callable[..., Any]
CPU = torch.device("cpu")
MIXED = {"training": {"sampler": "mixed", "batch_size": 24, "steps_per_epoch": 3}}


def loads_of(trainer: Trainer) -> list[Load]:
    return largest_loads(trainer, dict(trainer.position.draws))


def predicted(run: Any, **options: Any) -> Footprint:
    """Predict the step that takes most."""
    loads = loads_of(run.trainer)
    prober = Prober(run.trainer, loads, **options)
    return max((prober.predict(load) for load in loads), key=lambda found: found.total)


def scores(batch: PackedBatch) -> int:
    shapes = [group.tokens.shape for group in Sequences.of(batch).padding.groups]
    return sum(sequences * length**2 for sequences, length in shapes)


# The plan


@pytest.mark.parametrize(
    "training",
    [{"sampler": "annealed"}, {"sampler": "mixed", "accumulation": 3}, {"sampler": "mixed", "gradients": "pcgrad"}],
    ids=["one set a step", "pieces", "a batch a set"],
)
def test_the_largest_step_has_the_most_tokens_of_all_that_are_collated(start: Start, training: dict[str, Any]) -> None:
    siamese = {"pair_input": "siamese", "head": "concat"}
    trainer = start(tasks={"sst": {}, "quora": {}, "sts": siamese}, training=training).trainer
    largest, draws = {}, dict(trainer.position.draws)
    for epoch in trainer.epochs:
        for sets in trainer.sampler.epoch(epoch):
            tokens = max(batch.tokens for batch in trainer.feed(sets, draws))
            largest[sets] = max(tokens, largest.get(sets, 0))
            trainer.feed.count(sets, draws)
    counted = dict(trainer.position.draws)
    found = largest_loads(trainer, counted)
    assert {load.sets: load.tokens for load in found} == {tuple(sets): tokens for sets, tokens in largest.items()}
    assert counted == draws
    for load in found:
        assert max(batch.tokens for batch in trainer.feed(load.sets, load.draws)) == load.tokens


# Miniatures


def test_a_miniature_has_tokens_and_scores_in_the_proportion_of_its_batch(start: Start) -> None:
    trainer = start(**MIXED).trainer
    [load] = loads_of(trainer)
    [batch] = trainer.feed(load.sets, load.draws)
    found = scales([batch], CPU)
    few = {name: scale.few for name, scale in found.items()}
    small = miniature(batch, {name: scale.length for name, scale in found.items()}, few)
    assert small.tokens < batch.tokens / 3
    assert scores(small) / small.tokens == pytest.approx(scores(batch) / batch.tokens, rel=0.03)
    for name, part in small.parts.items():
        tokens, own = (place.tokens.stop - place.tokens.start for place in (batch.parts[name], part))
        assert part.labels is not None and part.examples == few[name] == len(part.labels)
        assert own * found[name].examples == pytest.approx(tokens * few[name])
    assert small.ids.dtype == batch.ids.dtype and small.starts.dtype == batch.starts.dtype
    assert set(small.ids.tolist()) <= set(batch.ids.tolist())


def test_on_other_devices_a_miniature_keeps_the_mean_and_the_longest_length(start: Start) -> None:
    trainer = start(**MIXED).trainer
    [load] = loads_of(trainer)
    [batch] = trainer.feed(load.sets, load.draws)
    [length] = {scale.length for scale in scales([batch], torch.device("cuda")).values()}
    assert length == round(batch.tokens / batch.sequences)
    one = dict.fromkeys(batch.parts, 1)
    assert miniature(batch, dict.fromkeys(batch.parts, length), one).max_length == batch.max_length


# What is predicted


def test_parameters_and_optimizer_are_counted_to_the_byte(start: Start) -> None:
    run = start()
    found = predicted(run)
    weights = sum(value.numel() * 4 for value in run.model.parameters())
    moved = [value for value in run.model.parameters() if value in run.trainer.optimizer.state]
    assert found.parameters == weights
    assert found.optimizer == sum(value.numel() * 8 + 4 for value in moved)  # two averages, and the step's number
    assert found.other == 0


@pytest.mark.parametrize(
    ("changes", "copies"),
    [
        ({"training": {"average": "ema"}}, 1),
        ({"training": {"average": "swa"}}, 1),
        ({"objectives": ["proximal"]}, 1),
        ({"training": {"average": "ema"}, "objectives": ["proximal"]}, 2),
    ],
    ids=["ema", "swa", "proximal", "both"],
)
def test_copies_of_the_weights_are_other_state(start: Start, changes: dict[str, Any], copies: int) -> None:
    found = predicted(start(**changes))
    assert found.other == pytest.approx(copies * found.parameters, rel=0.01)


def test_pretrained_weights_of_mixout_are_other_state(start: Start) -> None:
    run = start(encoder={"mixout": 0.3})
    held = sum(value.numel() * 4 for name, value in run.model.named_buffers() if name.endswith("pretrained"))
    assert predicted(run).other == held > 0


def test_activations_grow_with_the_rows(start: Start) -> None:
    small, large = (predicted(start(training={"batch_size": size})).activations for size in (32, 64))
    assert large == pytest.approx(2 * small, rel=0.15)


def test_recomputed_layers_are_predicted_to_take_less(start: Start) -> None:
    kept, again = (predicted(start(training={"batch_size": 64}, encoder={"recompute": on})) for on in (False, True))
    assert again.activations < 0.75 * kept.activations  # of two layers, one is there while it is recomputed


def test_what_others_hold_is_added(start: Start) -> None:
    run = start()
    assert predicted(run, beside=1000).other - predicted(run).other == 1000
