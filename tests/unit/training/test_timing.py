"""The time of steps: every step of the plan counts by its tokens, and only some are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palbert.training import timing
from palbert.training.timing import PlannedStep, planned_steps, time_steps

Start = Callable[..., Any]


@pytest.mark.parametrize(
    "training", [{"sampler": "annealed"}, {"sampler": "mixed", "accumulation": 2}], ids=["one set a step", "pieces"]
)
def test_planned_steps_have_the_tokens_of_collated_ones(start: Start, training: dict[str, Any]) -> None:
    trainer = start(training=training).trainer
    draws = dict(trainer.position.draws)
    steps = list(planned_steps(trainer, draws))
    assert draws == trainer.position.draws and len(steps) == trainer.total_steps
    for step in steps:
        assert step.tokens == sum(batch.tokens for batch in trainer.feed(step.sets, step.draws))


def test_seconds_per_token_are_extended_to_all_steps(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = start(training={"steps_per_epoch": 40}).trainer
    taken: list[PlannedStep] = []

    def seconds(trainer: Any, step: PlannedStep) -> float:
        taken.append(step)
        return 0.5 * step.tokens

    monkeypatch.setattr(timing, "_seconds", seconds)
    found = time_steps(trainer, dict(trainer.position.draws))
    everything = sum(step.tokens for step in planned_steps(trainer, dict(trainer.position.draws)))
    assert found.measured == len(taken) == timing.STEPS
    assert found.tokens == everything
    assert found.seconds == pytest.approx(0.5 * everything) and found.per_token == pytest.approx(0.5)


def test_slow_steps_are_measured_less_often(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = start(training={"steps_per_epoch": 40}).trainer
    monkeypatch.setattr(timing, "MOST_SECONDS", 0.0)
    found = time_steps(trainer, dict(trainer.position.draws))
    assert found.measured == timing.LEAST_STEPS and found.seconds > 0


def test_a_plan_with_few_steps_is_measured_once_each(start: Start) -> None:
    trainer = start(training={"epochs": 1, "steps_per_epoch": 3}).trainer
    assert time_steps(trainer, dict(trainer.position.draws)).measured == 3
