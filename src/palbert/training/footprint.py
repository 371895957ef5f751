"""Footprint: the memory that a training step takes at its peak, predicted from smaller steps, and measured."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.data.streams import Stream, cut
from palbert.errors import DeviceError
from palbert.runtime.memory import bytes_of, peak_bytes
from palbert.training.execution import Eager, Graphs
from palbert.training.feed import Feed
from palbert.training.trainer import Trainer

SHARES = (0.5, 0.75)
"""Shares of a step's rows in the smaller steps that its peak is predicted from."""


@dataclass(frozen=True)
class Load:
    """A step of the plan and its size."""

    step: int
    """Its number in the run, from 1."""
    draws: Mapping[str, int]
    """How many rows of each set were drawn before it."""
    sets: tuple[str, ...]
    """The sets whose batches it takes."""
    tokens: int
    """Tokens of its largest batch; it has several if it is cut into pieces or each set has a batch of its own."""


@dataclass(frozen=True)
class Footprint:
    """Bytes in use at the peak of a step."""

    parameters: int
    """Of the model and of the objectives."""
    optimizer: int
    """The optimizer's state."""
    other: int
    """Averages and other copies of the weights, and buffers; on CUDA also what libraries hold."""
    gradients: int
    """In use at the peak, and independent of the batch: gradients, and temporary copies of weights."""
    activations: int
    """What grows with the tokens: kept for the backward pass, or in use at the peak."""
    graphs: int = 0
    """On CUDA, the memory pool of captured steps, shared by all graphs: as much again as gradients and activations."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.optimizer + self.other + self.gradients + self.activations + self.graphs


def largest_loads(trainer: Trainer, draws: dict[str, int]) -> list[Load]:
    """Return the step with the most tokens for every combination of sets in a trainer's plan.

    Args:
        trainer: The trainer; its plan is known before any step.
        draws: How many rows of each set were drawn before; updated to the end of the plan.
    """
    feed = trainer.feed
    lengths = {name: each.sequence_lengths(feed.template).sum(axis=0) for name, each in feed.sets.items()}
    largest: dict[tuple[str, ...], Load] = {}
    number = trainer.steps.start
    for epoch in trainer.epochs:
        for sets in trainer.sampler.epoch(epoch):
            number += 1
            pieces = np.zeros(((len(sets) if feed.separate else 1), feed.accumulation))
            for place, name in enumerate(sets):
                rows = lengths[name][feed.streams[name].batch(draws[name])]
                pieces[place % len(pieces)] += [
                    part.sum() for part in cut(rows, feed.accumulation, together=feed.sets[name].together)
                ]
            tokens, kind = int(pieces.max()), tuple(sets)
            if kind not in largest or tokens > largest[kind].tokens:
                largest[kind] = Load(number, dict(draws), kind, tokens)
            feed.count(sets, draws)
    return list(largest.values())


class Prober:
    """Takes steps of a trainer to measure their memory; afterwards the weights are useless.

    Args:
        trainer: The trainer.
        loads: The largest steps of its plan, one for every combination of sets.
        waiting: Bytes that other trainers hold on the device; CUDA's allocator counts these itself.
    """

    def __init__(self, trainer: Trainer, loads: Sequence[Load], *, waiting: int = 0) -> None:
        self.trainer = trainer
        self.loads = loads
        self.waiting = waiting
        self.device = trainer.feed.device
        self.execution = trainer.execution

    def warm_up(self) -> None:
        """Take a tiny step of every combination of sets: optimizer and gradient method then allocate their state."""
        self.trainer.model.train()
        self.trainer.position.step = self.trainer.steps.start
        self.trainer.execution = Eager(self.device)
        for load in self.loads:
            self.trainer.step(self._batches(load, share=0))
        if isinstance(self.execution, Graphs):  # its first step shows whether steps can be captured
            self.trainer.execution = self.execution
            self.trainer.step(self._batches(self.loads[0], share=0))
            self.trainer.execution = Eager(self.device)

    def predict(self, load: Load) -> Footprint:
        """Predict the peak of a step from two smaller ones, along a line in the tokens.

        At every moment of a step the bytes are a linear function of the tokens, and the peak is their maximum. If the
        peak is at another moment in the whole step than in the smaller ones, the prediction is too low.
        """
        (few, low), (many, high) = self._small_peaks(load)
        slope = (high - low) / (many - few) if many > few else 0.0
        slope = min(max(slope, 0.0), high / many)  # so that neither part is negative
        tokens = max(batch.tokens for batch in self._batches(load))
        gradients, activations = int(high - slope * many), int(slope * tokens)
        captured = isinstance(self.execution, Graphs) and not self.execution.obstacle
        graphs = gradients + activations if captured else 0
        return replace(self._resting(), gradients=gradients, activations=activations, graphs=graphs)

    def measure(self, load: Load) -> int | None:
        """Take the step itself; return the bytes at its peak, or None if it does not fit."""
        batches = self._batches(load)
        try:
            before = self._resting().total
            return before + peak_bytes(lambda: self.trainer.step(batches), self.device) + self._measure_graph(batches)
        except torch.cuda.OutOfMemoryError:
            self.trainer.optimizer.zero_grad()
            return None

    def _measure_graph(self, batches: Sequence[PackedBatch]) -> int:
        """Return the memory that capturing a step takes from the device; 0 if steps cannot be captured."""
        if not isinstance(self.execution, Graphs):
            return 0
        self.trainer.execution = self.execution
        self.trainer.step(batches)
        if self.execution.obstacle:
            self.trainer.execution = Eager(self.device)
            return 0
        torch.cuda.empty_cache()  # capturing does so too; what eager steps left would be subtracted
        before = torch.cuda.memory_reserved(self.device)
        self.trainer.step(batches)  # the second of its kind is captured
        self.trainer.execution = Eager(self.device)
        return int(torch.cuda.memory_reserved(self.device)) - before

    def _small_peaks(self, load: Load) -> list[tuple[int, int]]:
        """Take smaller steps; return the tokens of each one's largest batch, and the bytes at its peak."""
        for divisor in (1, 2, 4, 8, 16):  # on CUDA, steps of this size may not fit either
            try:
                return [self._small_peak(load, share / divisor) for share in SHARES]
            except torch.cuda.OutOfMemoryError:
                self.trainer.optimizer.zero_grad()
        raise DeviceError(
            f"A small part of step {load.step:,} does not fit into the memory of {self.device}.",
            hint="Use a smaller encoder, train fewer parts (training.trains), or lower training.batch_size.",
        )

    def _small_peak(self, load: Load, share: float) -> tuple[int, int]:
        batches = self._batches(load, share=share)
        return max(batch.tokens for batch in batches), peak_bytes(lambda: self.trainer.step(batches), self.device)

    def _batches(self, load: Load, *, share: float = 1.0) -> list[PackedBatch]:
        """Return the batches of a step, or of its first rows: a share of each set's, at least one row."""
        return _smaller(self.trainer.feed, share)(load.sets, load.draws)

    def _resting(self) -> Footprint:
        """Return the memory in use between two steps."""
        trainer = self.trainer
        parameters = [*trainer.model.parameters(), *trainer.parameters]
        optimizer = [
            value for state in trainer.optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
        ]
        known = bytes_of(parameters), bytes_of(optimizer)
        if self.device.type == "cuda":
            other = int(torch.cuda.memory_allocated(self.device)) - sum(known)
        else:
            other = bytes_of(held_by(trainer), without=parameters) + self.waiting
        return Footprint(*known, other=other, gradients=0, activations=0)


def _smaller(feed: Feed, share: float) -> Feed:
    """Return a feed whose batches have a share of the rows, at least one of each set."""
    smaller = copy.copy(feed)
    smaller.streams = {
        name: Stream(
            name,
            rows=each.rows,
            batch_size=each.together * max(1, round(each.batch_size / each.together * share)),
            seed=each.seed,
            together=each.together,
        )
        for name, each in feed.streams.items()
    }
    return smaller


def held_by(trainer: Trainer) -> list[Tensor]:
    """Return the tensors that a trainer holds between steps, without the optimizer's."""
    modules: list[nn.Module] = [trainer.model, trainer.objective]
    modules += [value for value in vars(trainer.average).values() if isinstance(value, nn.Module)]
    own = (tensor for module in modules for tensor in (*module.parameters(), *module.buffers()))
    return [*trainer.gradients.held, *own]
