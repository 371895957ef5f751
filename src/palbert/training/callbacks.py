"""Callbacks: code of a user that observes a run, and may finish it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from palbert.errors import TrainingError
from palbert.training.trainer import Evaluation, Hook, Trainer


class Callback(Hook):
    """Base class of your own callbacks, for `palbert.train(..., callbacks=[...])`; all methods are optional.

    These parts of `trainer` are stable: `trainer.model`, `trainer.total_steps`, `trainer.position.epoch`,
    `trainer.position.step`, `trainer.position.elapsed` (seconds), and `trainer.finish("reason")`, which ends the run
    after the current step: it is evaluated and saved, and its report says why.
    """


class Callbacks(Hook):
    """Call all callbacks in turn; an error says which one it comes from."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = list(callbacks)

    def on_start(self, trainer: Trainer) -> None:
        """Call `on_start`."""
        for callback in self.callbacks:
            with _named(callback, "on_start", trainer):
                callback.on_start(trainer)

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Call `on_step`."""
        for callback in self.callbacks:
            with _named(callback, "on_step", trainer):
                callback.on_step(trainer, losses, tokens)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Call `on_evaluation`."""
        for callback in self.callbacks:
            with _named(callback, "on_evaluation", trainer):
                callback.on_evaluation(trainer, evaluation)

    def on_stop(self, trainer: Trainer) -> None:
        """Call `on_stop`."""
        for callback in self.callbacks:
            with _named(callback, "on_stop", trainer):
                callback.on_stop(trainer)

    def on_end(self, trainer: Trainer) -> None:
        """Call `on_end`."""
        for callback in self.callbacks:
            with _named(callback, "on_end", trainer):
                callback.on_end(trainer)


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raise TypeError for anything that is not an instance of Callback."""
    listed = isinstance(callbacks, Sequence)
    for callback in callbacks if listed else [callbacks]:
        if not listed or not isinstance(callback, Callback):
            found = f"the class {callback.__name__}" if isinstance(callback, type) else repr(callback)
            raise TypeError(f"callbacks: expected a list of instances of palbert.extend.Callback, found {found}.")


@contextmanager
def _named(callback: Callback, method: str, trainer: Trainer) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise TrainingError(
            f"The callback {type(callback).__name__} failed in {method}, at step {trainer.position.step}: "
            f"{type(error).__name__}: {error}",
            hint="The traceback shows where. The run can be resumed from its last checkpoint.",
        ) from error
