"""Timing: how long the steps of a plan will take, measured on a few of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from palbert.training.execution import Graphs
from palbert.training.trainer import Trainer

STEPS = 12
"""Steps that are measured, spread evenly over the plan."""
LEAST_STEPS = 4
"""Steps that are measured in any case."""
MOST_SECONDS = 20.0
"""No further step is measured after this time."""


@dataclass(frozen=True)
class PlannedStep:
    """One step of a plan."""

    sets: tuple[str, ...]
    draws: Mapping[str, int]
    """How many rows of each set were drawn before it."""
    tokens: int


@dataclass(frozen=True)
class StepTime:
    """The steps of a plan, and how long they will take."""

    seconds: float
    """All steps."""
    tokens: int
    """All steps."""
    measured: int
    """How many steps were measured."""

    @property
    def per_token(self) -> float:
        """Seconds for one token of a training step."""
        return self.seconds / max(self.tokens, 1)


def time_steps(trainer: Trainer, draws: dict[str, int]) -> StepTime:
    """Measure some steps, and extend their seconds per token to all steps; afterwards the weights are useless.

    Args:
        trainer: The trainer, which has done a step of every combination of sets before.
        draws: How many rows of each set were drawn before the plan begins.
    """
    chosen = set(np.linspace(0, len(trainer.steps) - 1, STEPS).round().astype(int).tolist())
    total, picked = 0, []
    for number, step in enumerate(planned_steps(trainer, draws)):
        total += step.tokens
        if number in chosen:
            picked.append(step)
    order = np.random.default_rng(0).permutation(len(picked))  # if time runs out, those left out are anywhere
    seconds, tokens, measured = 0.0, 0, 0
    start = time.perf_counter()
    for number in order:
        seconds += _seconds(trainer, picked[number])
        tokens += picked[number].tokens
        measured += 1
        if measured >= LEAST_STEPS and time.perf_counter() - start > MOST_SECONDS:
            break
    return StepTime(seconds / max(tokens, 1) * total, total, measured)


def planned_steps(trainer: Trainer, draws: dict[str, int]) -> Iterator[PlannedStep]:
    """Yield every step of a trainer's plan with its tokens."""
    feed, draws = trainer.feed, dict(draws)
    lengths = {name: each.sequence_lengths(feed.template).sum(axis=0) for name, each in feed.sets.items()}
    for epoch in trainer.epochs:
        for sets in trainer.sampler.epoch(epoch):
            tokens = sum(int(lengths[name][feed.streams[name].batch(draws[name])].sum()) for name in sets)
            yield PlannedStep(tuple(sets), dict(draws), tokens)
            feed.count(sets, draws)


def _seconds(trainer: Trainer, step: PlannedStep) -> float:
    """Take a step and return its seconds; a step that is captured as a graph is measured when it is replayed."""
    trainer.model.train()
    repeats = 3 if isinstance(trainer.execution, Graphs) else 1
    passed = 0.0
    for _ in range(repeats):
        batches = trainer.feed(step.sets, step.draws)
        _wait(trainer.feed.device)
        start = time.perf_counter()
        trainer.step(batches)
        _wait(trainer.feed.device)
        passed = time.perf_counter() - start
    return passed


def _wait(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
