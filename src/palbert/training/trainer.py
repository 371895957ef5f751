"""Trainer: the loop over epochs and steps, and the training step itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.gradients import GradientMethod
from palbert.objectives.objective import Objective
from palbert.runtime.distributed import Ranks
from palbert.runtime.replay import Decision, Work
from palbert.training.averaging import Average
from palbert.training.execution import Eager, Execution, Losses
from palbert.training.feed import Feed
from palbert.training.loss_scale import LossScale, NoScale
from palbert.training.non_finite import NonFinite, Stop
from palbert.training.optimizer import clip_gradients, set_rates
from palbert.training.samplers import Sampler

Scores = dict[str, dict[str, float]]


@dataclass
class Position:
    """How far a run has progressed; together with weights and random states, all that resuming needs."""

    epoch: int = 1
    """The current epoch, from 1."""
    done: int = 0
    """Steps done in that epoch."""
    step: int = 0
    """Steps done in the run."""
    draws: dict[str, int] = field(default_factory=dict)
    """Rows drawn from each set in the run."""
    evaluated: int = 0
    """The step of the last evaluation."""
    seconds: float = 0.0
    """Training time so far."""
    elapsed: float = 0.0
    """Training time with all evaluations and checkpoints."""
    losses: dict[str, list[Any]] = field(default_factory=dict)
    """Losses of each set since the last line of metrics.jsonl; still on the device."""
    cosines: dict[str, list[Any]] = field(default_factory=dict)
    """Cosines between tasks' gradients since then."""
    recent: dict[str, list[float]] = field(default_factory=dict)
    """The last losses of each set, with which spikes are found."""
    highest: dict[str, float] = field(default_factory=dict)
    """The highest of each set's first losses."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        losses = {task: [float(loss) for loss in losses] for task, losses in self.losses.items()}
        cosines = {pair: [float(cosine) for cosine in cosines] for pair, cosines in self.cosines.items()}
        return {**asdict(replace(self, losses={}, cosines={})), "losses": losses, "cosines": cosines}


@dataclass(frozen=True)
class Evaluation:
    """Scores of all tasks on dev."""

    epoch: float
    """Epochs done; a fraction within an epoch, 0 before training."""
    step: int
    """Steps done."""
    overall: float
    """The recipe's formula over the main metrics of all tasks; higher is better."""
    tasks: Scores
    """Every metric of every task; the main one is the first."""
    seconds: float = 0.0
    """How long the evaluation took."""

    @property
    def ends_epoch(self) -> bool:
        """Whether an epoch was complete."""
        return self.epoch == int(self.epoch)

    def __str__(self) -> str:
        main = ", ".join(f"{task} {next(iter(scores.values())):.3f}" for task, scores in self.tasks.items())
        return f"overall {self.overall:.4f} ({main})"


class Hook:
    """Observe a run; all methods are optional."""

    def on_start(self, trainer: Trainer) -> None:
        """Before the first step."""

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """After each step, with losses that are still on the device."""

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """After each evaluation; at the end of an epoch the position is already the next epoch's start."""

    def on_stop(self, trainer: Trainer) -> None:
        """When Ctrl-C stops the run."""

    def on_end(self, trainer: Trainer) -> None:
        """At the very end, also after an error."""


class Evaluate(Protocol):
    """Score a model: the one under training, or its average."""

    def __call__(self, model: Any, *, epoch: float, step: int) -> Evaluation:
        """Return the scores of all tasks on dev."""
        ...


class Trainer:
    """Train a model: epochs of steps, with hooks that observe.

    A run with phases has one trainer per phase: `epochs` are those of the phase among the sampler's epochs, all by
    default, and schedule and average cover only their steps. Several processes (`ranks`) do the same steps at the same
    time, each on its share of the rows. There is an evaluation after each epoch, and after every `evaluate_every` steps
    if given.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        sampler: Sampler,
        feed: Feed,
        objective: Objective,
        gradients: GradientMethod,
        optimizer: torch.optim.Optimizer,
        schedule: Callable[[int, int], float],
        clip: float,
        average: Average,
        arithmetic: Callable[[], AbstractContextManager[Any]],
        evaluate: Evaluate,
        hooks: Sequence[Hook] = (),
        epochs: range | None = None,
        ranks: Ranks | None = None,
        execution: Execution | None = None,
        scale: LossScale | None = None,
        evaluate_every: int | None = None,
        non_finite: NonFinite | None = None,
    ) -> None:
        self.model = model
        self.sampler = sampler
        self.feed = feed
        self.objective = objective
        self.gradients = gradients
        self.optimizer = optimizer
        self.schedule = schedule
        self.clip = clip
        self.average = average
        self.arithmetic = arithmetic
        self.evaluate = evaluate
        self.hooks = list(hooks)
        self.ranks = ranks or Ranks()
        self.execution = execution or Eager(feed.device)
        self.scale = scale or NoScale()
        self.evaluate_every = evaluate_every
        self.non_finite = non_finite or Stop()
        self.epochs = epochs or range(1, sampler.epochs + 1)
        ends = (0, *sampler.ends)
        self.steps = range(ends[self.epochs.start - 1], ends[self.epochs.stop - 1])
        self.parameters = [p for module in (model, objective) for p in module.parameters() if p.requires_grad]
        self.position = Position(draws=dict.fromkeys(sampler.rows, 0))
        self.stopping = False  # Ctrl-C: after this step, to be resumed
        self.reason = ""  # why the run finishes early
        self.finishing = False  # known to all processes, unlike the reason

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return self.sampler.ends[-1]

    def step(self, batches: Sequence[PackedBatch]) -> Losses:
        """Do one step; return each set's loss, left on the device.

        In this order: losses → balance → gradients → combine → clip → move the weights → average.
        """
        done, steps = self.position.step - self.steps.start, len(self.steps)
        set_rates(self.optimizer, self.schedule(done, steps))
        losses = self.execution(self.update, batches)  # computed, or replayed as CUDA graphs
        self.non_finite.update_average(self.average, done + 1, steps)
        return losses

    def update(self, batches: Sequence[PackedBatch]) -> Work:
        """Update the weights once; return each set's loss.

        All of it runs on the device, and the host does not wait, so that it can be captured as CUDA graphs. The
        exceptions are what processes exchange and what a gradient method decides on the host: they are yielded as
        functions, which the caller runs before the rest.
        """
        self.optimizer.zero_grad()  # an update starts again if it cannot be recorded
        self.gradients.clear()
        losses: dict[str, Any] = {}
        for batch in batches:
            for name, loss in self._losses_and_gradients(batch).items():
                losses[name] = losses.get(name, 0) + loss
        yield from self._sum_over_processes(losses)

        question = self.gradients.compare()
        if question is not None:
            yield partial(self.gradients.decide, question)
        self.gradients.combine()
        norm = clip_gradients(self.optimizer, self.clip, self.scale)
        self.non_finite.before_step(self.optimizer, norm, losses)
        self.optimizer.step()
        self.non_finite.after_step(self.objective, self.model, losses)
        self.optimizer.zero_grad()
        return losses

    def _losses_and_gradients(self, batch: PackedBatch) -> Losses:
        """Compute the losses of one batch and add their gradients; return each set's loss before balancing."""
        with self.arithmetic(), self.gradients.forward_context():
            losses = self.objective(self.model, batch)
        balanced = batch.by_task(self.objective.balance(losses, batch.shares))
        self.gradients.backward({task: self.scale(loss) for task, loss in balanced.items()})
        return {name: loss.detach() for name, loss in losses.items()}

    def _sum_over_processes(self, losses: Losses) -> Iterator[Decision]:
        """Yield what sums losses and gradients over processes, if there are several."""
        sum_gradients = self.gradients.exchange()

        def exchange() -> None:
            self.ranks.add_in_place(*losses.values())
            if sum_gradients:
                sum_gradients()

        if self.ranks.communicate:
            yield exchange

    def finish(self, reason: str) -> None:
        """Finish the run early: after this step it is evaluated, saved and complete. The first reason is kept."""
        self.reason = self.reason or reason

    def fit(self) -> bool:
        """Train from the current position to the end of the last epoch; return False if Ctrl-C stopped it."""
        try:
            for hook in self.hooks:
                hook.on_start(self)
            while self.position.epoch < self.epochs.stop and not self._is_finished():
                if not self._run_until_evaluation():
                    for hook in self.hooks:
                        hook.on_stop(self)
                    return False
                evaluation = self._evaluate_position()
                for hook in self.hooks:
                    hook.on_evaluation(self, evaluation)
            return True
        finally:
            for hook in self.hooks:
                hook.on_end(self)

    def _is_finished(self) -> bool:
        """Whether the run finishes early and has been evaluated where it is; it does at least one step."""
        self.finishing = any(self.ranks.count(bool(self.reason)))
        return self.finishing and self.position.evaluated == self.position.step > 0

    def _run_until_evaluation(self) -> bool:
        """Do the steps up to the next evaluation; return False if Ctrl-C stopped them."""
        self.model.train()
        plan = self.sampler.epoch(self.position.epoch)[self.position.done :][: self._steps_to_evaluation()]
        with closing(self.feed.ahead(plan, self.position.draws)) as feed:
            for sets, batches in zip(plan, feed, strict=True):
                losses = self.step(batches)
                self.feed.count(sets, self.position.draws)
                self.position.done += 1
                self.position.step += 1
                [tokens] = self.feed.ranks.count(sum(batch.tokens for batch in batches))
                for hook in self.hooks:
                    hook.on_step(self, losses, tokens)
                # All processes stop or finish at the same step, so that none waits for another.
                stopping, finishing = self.ranks.count(self.stopping, bool(self.reason))
                if stopping:
                    return False
                if finishing:
                    break
        return True

    def _steps_to_evaluation(self) -> int | None:
        """Return the steps to the next evaluation within the epoch; 0 if Ctrl-C stopped the run just before it."""
        if self.evaluate_every is None:
            return None
        position = self.position
        next_one = -(-max(position.step, position.evaluated + 1) // self.evaluate_every) * self.evaluate_every
        return next_one - position.step

    def _evaluate_position(self) -> Evaluation:
        """Score the model; after the last step of an epoch, move the position to the start of the next one."""
        position = self.position
        share = position.done / self.sampler.length(position.epoch)
        epoch = position.epoch if share == 1 else position.epoch - 1 + share
        evaluation = self.timed_evaluation(self.average.model, epoch=epoch, step=position.step)
        position.evaluated = position.step
        if share == 1:
            position.epoch, position.done = position.epoch + 1, 0
        return evaluation

    def timed_evaluation(self, model: nn.Module, *, epoch: float, step: int) -> Evaluation:
        """Score a model, and measure how long that takes."""
        start = time.perf_counter()
        evaluation = self.evaluate(model, epoch=epoch, step=step)
        return replace(evaluation, seconds=time.perf_counter() - start)
