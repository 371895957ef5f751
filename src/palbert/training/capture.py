"""Capture: whole training steps as CUDA graphs, replayed without Python in between."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.runtime.graphs import Recorder

log = logging.getLogger(__name__)

MOST_GRAPHS = 64
"""Kinds of steps that are captured; each takes a little memory and time."""
PATIENCE = 3
"""Failures to record a step after which none is tried; one may come from a kernel that was not loaded yet."""
SYNCHRONISES = "called a synchronizing CUDA operation"
"""How torch's warning begins when Python waits for the device."""

Losses = dict[str, Tensor]


@dataclass
class Gathered:
    """What the first part of a step finds; all of it on the device."""

    losses: Losses
    """Each set's loss."""
    question: Any = None
    """What the host has to decide before the weights can move; None if nothing."""


class Update(Protocol):
    """The work of a step: two parts on the device, and maybe a word of the host's between them."""

    def gather(self, batches: Sequence[PackedBatch]) -> Gathered:
        """Take the losses of the batches, and their gradients."""
        ...

    def decide(self, gathered: Gathered) -> None:
        """Answer the question; the host may wait for the device."""
        ...

    def move(self, gathered: Gathered) -> None:
        """Move the weights."""
        ...


class Eager:
    """Compute every step kernel by kernel."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        """Do a step; return each set's loss."""
        gathered = update.gather([batch.to(self.device) for batch in batches])
        if gathered.question is not None:
            update.decide(gathered)
        update.move(gathered)
        return gathered.losses

    def summary(self) -> str:
        """Say how steps were computed, for the log; nothing where there is no choice."""
        return ""


@dataclass
class _Captured:
    """A kind of step: its inputs, its graphs, and where its losses come out."""

    batches: list[PackedBatch]
    graphs: list[torch.cuda.CUDAGraph]
    gathered: Gathered

    def losses(self) -> Losses:
        """Return the losses of this time; the next replay writes over its own."""
        return {name: loss.clone() for name, loss in self.gathered.losses.items()}


class Graphs(Eager):
    """Replay steps whose kind has come before: the same sets, rows and filled-up sizes.

    The first step of a kind is computed as ever, and watched: a step that makes the host wait for the device cannot be
    captured. The second is captured, which computes nothing, and replayed; so are all others. Nothing is done twice,
    so a run is the same as without. Random numbers differ from replay to replay, since graphs read the generator's
    state from the device, and the generator moves on as in a computed step. Learning rates are read from the device.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.kinds: dict[Any, _Captured | None] = {}
        self.obstacle = ""
        self.failures = 0
        self.replayed = self.computed = 0
        self.seconds = 0.0
        self._recorder = Recorder(device)

    def __call__(self, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        """Do a step; return each set's loss."""
        kind = tuple(batch.kind for batch in batches)
        known = self.kinds.get(kind)
        if known is None and (self.obstacle or kind not in self.kinds or self._count() >= MOST_GRAPHS):
            return self._compute(kind, update, batches)
        if known is None:
            return self._capture(kind, update, batches)
        for static, batch in zip(known.batches, batches, strict=True):
            static.copy_(batch)
        self._replay(known, update)
        self.replayed += 1
        return known.losses()

    def _compute(self, kind: Any, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        self.computed += 1
        if self.obstacle or self._count() >= MOST_GRAPHS:
            return super().__call__(update, batches)
        self.kinds[kind] = None
        return self._recorder.aside(lambda: self._watched(update, [batch.to(self.device) for batch in batches]))

    def _watched(self, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        """Compute a step, and note what in it makes the host wait."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                gathered = update.gather(batches)
                if gathered.question is not None:
                    torch.cuda.set_sync_debug_mode("default")
                    update.decide(gathered)
                    torch.cuda.set_sync_debug_mode("warn")
                update.move(gathered)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        for warning in caught:
            if str(warning.message).startswith(SYNCHRONISES):
                self._give_up(f"{Path(warning.filename).name}:{warning.lineno} makes the host wait for the device")
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return gathered.losses

    def _capture(self, kind: Any, update: Update, batches: Sequence[PackedBatch]) -> Losses:
        start = time.perf_counter()
        static = [batch.to(self.device) for batch in batches]
        torch.cuda.synchronize(self.device)
        try:
            first, gathered = self._recorder.record(lambda: self._first(update, static))
            captured = _Captured(static, [first], gathered)
            first.replay()
            if gathered.question is not None:
                update.decide(gathered)
                second, _ = self._recorder.record(lambda: update.move(gathered))
                captured.graphs.append(second)
                second.replay()
        except RuntimeError as error:
            self.failures += 1
            if self.failures == PATIENCE:
                self._give_up(str(error).splitlines()[0])
            self.kinds.clear()  # graphs belong to a generator's state that a failed one leaves unusable
            self._recorder.recover()
            return self._compute(kind, update, batches)
        torch.cuda.empty_cache()  # what the computed step worked in: graphs have memory of their own
        self.kinds[kind] = captured
        self.replayed += 1
        self.seconds += time.perf_counter() - start
        return captured.losses()

    def _first(self, update: Update, batches: Sequence[PackedBatch]) -> Gathered:
        """Do what comes before the host's word: everything, where it has none to say."""
        gathered = update.gather(batches)
        if gathered.question is None:
            update.move(gathered)
        return gathered

    def _replay(self, known: _Captured, update: Update) -> None:
        known.graphs[0].replay()
        if known.gathered.question is not None:
            update.decide(known.gathered)
            known.graphs[1].replay()

    def _count(self) -> int:
        return sum(known is not None for known in self.kinds.values())

    def _give_up(self, obstacle: str) -> None:
        if not self.obstacle:
            self.obstacle = obstacle
            log.info("steps are not captured as CUDA graphs: %s", obstacle)

    def summary(self) -> str:
        """Say how steps were computed, for the log."""
        if self.obstacle:
            return f"{self.computed:,} steps computed without CUDA graphs: {self.obstacle}"
        share = f"{self.replayed:,} of {self.replayed + self.computed:,} steps"
        return f"{share} replayed from {self._count()} CUDA graphs, captured in {self.seconds:.1f} s"
