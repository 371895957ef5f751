"""The memory of a step: the largest steps of a plan, smaller ones, and the share of each part of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from palbert.batch import PackedBatch
from palbert.errors import DeviceError
from palbert.training.footprint import Footprint, Load, Prober, largest_loads
from palbert.training.trainer import Trainer

Start = Callable[..., Any]
MIXED = {"training": {"sampler": "mixed", "batch_size": 24, "steps_per_epoch": 3}}


def loads_of(trainer: Trainer) -> list[Load]:
    return largest_loads(trainer, dict(trainer.position.draws))


def predicted_by(trainer: Trainer, **options: Any) -> Footprint:
    """Predict the memory of the largest step."""
    loads = loads_of(trainer)
    prober = Prober(trainer, loads, **options)
    prober.warm_up()
    return max((prober.predict(load) for load in loads), key=lambda found: found.total)


def predicted(run: Any, **options: Any) -> Footprint:
    return predicted_by(run.trainer, **options)


def rows_of(batches: list[PackedBatch]) -> dict[str, list[float]]:
    """Return the labels of each set over all pieces of a step."""
    found: dict[str, list[float]] = {}
    for batch in batches:
        for name, part in batch.parts.items():
            assert part.labels is not None
            found.setdefault(name, []).extend(part.labels.tolist())
    return found


# The plan


@pytest.mark.parametrize(
    "training",
    [{"sampler": "annealed"}, {"sampler": "mixed", "accumulation": 3}, {"sampler": "mixed", "gradients": "pcgrad"}],
    ids=["one set a step", "pieces", "a batch a set"],
)
def test_the_largest_step_has_the_most_tokens_of_all_collated_steps(start: Start, training: dict[str, Any]) -> None:
    siamese = {"pair_input": "siamese", "head": "concat"}
    trainer = start(tasks={"sst": {}, "quora": {}, "sts": siamese}, training=training).trainer
    largest: dict[Any, Any] = {}
    draws = dict(trainer.position.draws)
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


# Smaller steps


@pytest.mark.parametrize("training", [{}, {"accumulation": 2}, {"gradients": "mgda"}], ids=["whole", "cut", "pcgrad"])
def test_a_smaller_step_has_the_first_rows_of_every_set(start: Start, training: dict[str, Any]) -> None:
    trainer = start(training={**MIXED["training"], **training}).trainer
    [load] = loads_of(trainer)
    prober = Prober(trainer, [load])
    for share, rows in ((1.0, 24), (0.75, 18), (0.5, 12), (0.0, 1)):
        taken = rows_of(prober._batches(load, share=share))
        assert {name: len(labels) for name, labels in taken.items()} == dict.fromkeys(load.sets, rows)
        whole = rows_of(trainer.feed(load.sets, load.draws))
        assert all(labels == whole[name][:rows] for name, labels in taken.items())


def test_probing_does_not_change_the_feed(start: Start) -> None:
    trainer = start(**MIXED).trainer
    [load] = loads_of(trainer)
    before = [batch.tokens for batch in trainer.feed(load.sets, load.draws)]
    predicted_by(trainer)
    assert [batch.tokens for batch in trainer.feed(load.sets, load.draws)] == before


# What is predicted


def test_parameters_and_optimizer_are_counted_to_the_byte(start: Start) -> None:
    run = start()
    found = predicted(run)
    weights = sum(value.numel() * 4 for value in run.model.parameters())
    moved = [value for value in run.model.parameters() if value in run.trainer.optimizer.state]
    assert found.parameters == weights
    assert found.optimizer == sum(
        value.numel() * 8 + 4 for value in moved
    )  # two moving averages, and the number of the step
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
def test_copies_of_the_weights_count_as_other_state(start: Start, changes: dict[str, Any], copies: int) -> None:
    found = predicted(start(**changes))
    assert found.other == pytest.approx(copies * found.parameters, rel=0.01)


def test_pretrained_weights_of_mixout_count_as_other_state(start: Start) -> None:
    run = start(encoder={"mixout": 0.3})
    held = sum(value.numel() * 4 for name, value in run.model.named_buffers() if name.endswith("pretrained"))
    assert predicted(run).other == held > 0


def test_activations_grow_with_the_rows(start: Start) -> None:
    small, large = (predicted(start(training={"batch_size": size})).activations for size in (32, 64))
    assert large == pytest.approx(2 * small, rel=0.15)


def test_recomputed_layers_are_predicted_to_take_less_memory(start: Start) -> None:
    kept, again = (predicted(start(training={"batch_size": 64}, encoder={"recompute": on})) for on in (False, True))
    assert again.activations < 0.75 * kept.activations  # of two layers, one is in memory while it is recomputed


def test_memory_of_a_waiting_model_is_added(start: Start) -> None:
    run = start()
    assert predicted(run, waiting=1000).other - predicted(run).other == 1000


@pytest.mark.parametrize("gradients", ["sum", "pcgrad"])
def test_the_prediction_is_close_to_the_measurement(start: Start, gradients: str) -> None:
    trainer = start(training={**MIXED["training"], "gradients": gradients}).trainer
    [load] = loads_of(trainer)
    prober = Prober(trainer, [load])
    prober.warm_up()
    assert prober.predict(load).total == pytest.approx(prober.measure(load), rel=0.05)


def test_a_step_that_does_not_fit_is_measured_as_none_and_predicted_from_smaller_ones(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = start(**MIXED).trainer
    [load] = loads_of(trainer)
    prober = Prober(trainer, [load])
    prober.warm_up()
    fits, step = prober.predict(load).total, trainer.step

    def limited(batches: list[PackedBatch]) -> Any:
        if sum(batch.tokens for batch in batches) > 0.6 * load.tokens:
            raise torch.cuda.OutOfMemoryError
        return step(batches)

    monkeypatch.setattr(trainer, "step", limited)
    assert prober.measure(load) is None
    assert prober.predict(load).total == pytest.approx(fits, rel=0.2)
    monkeypatch.setattr(trainer, "step", lambda batches: (_ for _ in ()).throw(torch.cuda.OutOfMemoryError))
    with pytest.raises(DeviceError, match="does not fit"):
        prober.predict(load)
