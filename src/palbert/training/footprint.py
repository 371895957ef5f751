"""Footprint: the memory that a training step takes at its peak, predicted from small steps, and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.runtime.memory import Timeline, bytes_of, gauge, requested_bytes, stretches
from palbert.training.execution import Eager, Graphs
from palbert.training.miniature import miniature, scales
from palbert.training.trainer import Trainer


@dataclass(frozen=True)
class Load:
    """A step of the plan and what it has to carry."""

    step: int
    """Its number in the run, from 1."""
    draws: Mapping[str, int]
    """How many rows of each set were drawn before it."""
    sets: tuple[str, ...]
    """The sets whose batches it takes."""
    tokens: int
    """Tokens of its largest batch: of all it has, unless it is cut into pieces or each set is a batch of its own."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that live when a step is at its peak."""

    parameters: int
    """The model's, and what objectives train."""
    optimizer: int
    """The optimizer's state."""
    other: int
    """Averages, other copies of the weights, buffers; on CUDA also what libraries hold."""
    gradients: int
    """What lives at the peak and does not grow with a batch: gradients, and copies of weights that a pass makes."""
    activations: int
    """What grows with the tokens: kept for the backward pass, and under way."""
    graphs: int = 0
    """On CUDA, what captured steps work in: memory of their own for gradients and activations, shared by all graphs."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.optimizer + self.other + self.gradients + self.activations + self.graphs


def largest_loads(trainer: Trainer, draws: dict[str, int]) -> list[Load]:
    """Return the step with the most tokens for every combination of sets in a trainer's plan.

    Args:
        trainer: Its plan, which needs no step before it to be known.
        draws: How many rows of each set were drawn before; counted on to the end of the plan.
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
                pieces[place % len(pieces)] += [part.sum() for part in np.array_split(rows, feed.accumulation)]
            tokens, kind = int(pieces.max()), tuple(sets)
            if kind not in largest or tokens > largest[kind].tokens:
                largest[kind] = Load(number, dict(draws), kind, tokens)
            feed.count(sets, draws)
    return list(largest.values())


class Prober:
    """Takes steps of a trainer to see what they need; the weights are of no use afterwards.

    Args:
        trainer: The trainer.
        loads: The largest steps of its plan, one for every combination of sets.
        beside: Bytes that others hold on the device meanwhile; CUDA's allocator knows them by itself.
    """

    def __init__(self, trainer: Trainer, loads: Sequence[Load], *, beside: int = 0) -> None:
        self.trainer = trainer
        self.device = trainer.feed.device
        self.execution, trainer.execution = trainer.execution, Eager(self.device)  # what a graph does cannot be watched
        self.beside = beside
        trainer.model.train()
        trainer.position.step = trainer.steps.start
        self._batches = {load.sets: trainer.feed(load.sets, load.draws) for load in loads}
        self._scales = {
            sets: scales([batch.to("cpu") for batch in batches], self.device) for sets, batches in self._batches.items()
        }
        for sets in self._batches:  # all of the optimizer's state is there from now on
            self._small_step(sets)
        if isinstance(self.execution, Graphs):  # a look at a step says whether any can be captured
            trainer.execution = self.execution
            self._small_step(next(iter(self._batches)))
            trainer.execution = Eager(self.device)

    def predict(self, load: Load) -> Footprint:
        """Predict the peak of a step from small ones.

        The bytes that live after each operation grow with the examples of each set along a line. One small step, and
        one for each set with twice its examples, give all these lines; the highest of them at full size is the peak.
        """
        chosen = self._scales[load.sets]
        timelines = [self._timeline(load.sets)] + [self._timeline(load.sets, twice=name) for name in chosen]
        live = np.array(stretches(timelines), dtype=np.float64)  # (1 + sets, stretches)
        few = np.array([scale.few for scale in chosen.values()])
        slopes = (live[1:] - live[0]) / few[:, None]
        growing = np.array([scale.examples for scale in chosen.values()]) @ slopes
        fixed = live[0] - few @ slopes
        peak = int(np.argmax(fixed + growing))
        found = replace(self._resting(), gradients=int(fixed[peak]), activations=int(growing[peak]))
        return replace(found, graphs=found.gradients + found.activations) if self._captures else found

    @property
    def _captures(self) -> bool:
        return isinstance(self.execution, Graphs) and not self.execution.obstacle

    def measure(self, load: Load) -> int | None:
        """Take the step itself; return the bytes at its peak, or None if it does not fit."""
        batches = self._batches[load.sets]
        if self.device.type != "cuda":
            found = gauge(self.device)
            with found:
                self.trainer.step(batches)
            return self._resting().total + found.peak
        torch.cuda.reset_peak_memory_stats(self.device)
        try:
            self.trainer.step(batches)
            return int(torch.cuda.max_memory_allocated(self.device)) + self._measure_graph(batches)
        except torch.cuda.OutOfMemoryError:
            self.trainer.optimizer.zero_grad()
            return None

    def _measure_graph(self, batches: Sequence[PackedBatch]) -> int:
        """Return what torch takes from the device when a step is captured; nothing where it cannot be."""
        if not isinstance(self.execution, Graphs):
            return 0
        self.trainer.execution = self.execution
        self.trainer.step(batches)
        if self.execution.obstacle:
            self.trainer.execution = Eager(self.device)
            return 0
        torch.cuda.empty_cache()  # capturing does so too: what computed steps left would be taken off
        before = torch.cuda.memory_reserved(self.device)
        self.trainer.step(batches)  # the second of its kind
        self.trainer.execution = Eager(self.device)
        return int(torch.cuda.memory_reserved(self.device)) - before

    def _timeline(self, sets: tuple[str, ...], *, twice: str = "") -> Timeline:
        found = gauge(self.device)
        with found:
            self._small_step(sets, twice=twice)
        return found.timeline

    def _small_step(self, sets: tuple[str, ...], *, twice: str = "") -> None:
        chosen = self._scales[sets]
        lengths = {name: scale.length for name, scale in chosen.items()}
        examples = {name: scale.few * (2 if name == twice else 1) for name, scale in chosen.items()}
        small = [miniature(batch.to("cpu"), lengths, examples) for batch in self._batches[sets]]
        self.trainer.step([batch.to(self.device) for batch in small])

    def _resting(self) -> Footprint:
        """Return what lives between two steps."""
        trainer = self.trainer
        parameters = [*trainer.model.parameters(), *trainer.parameters]
        optimizer = [
            value for state in trainer.optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
        ]
        known = bytes_of(parameters), bytes_of(optimizer)
        if self.device.type == "cuda":
            other = requested_bytes(self.device) - sum(known)
        else:
            other = bytes_of(held_by(trainer), without=parameters) + self.beside
        return Footprint(*known, other=other, gradients=0, activations=0)


def held_by(trainer: Trainer) -> list[Tensor]:
    """Return the tensors that a trainer holds between steps, without the optimizer's."""
    modules: list[nn.Module] = [trainer.model, trainer.objective]
    modules += [value for value in vars(trainer.average).values() if isinstance(value, nn.Module)]
    own = (tensor for module in modules for tensor in (*module.parameters(), *module.buffers()))
    return [*trainer.gradients.held, *own]
