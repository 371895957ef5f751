"""Callbacks: code of a user that observes a run, and may finish it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
        self._call("on_start", trainer)

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        """Call `on_step`."""
        self._call("on_step", trainer, losses, tokens)

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Call `on_evaluation`."""
        self._call("on_evaluation", trainer, evaluation)

    def on_stop(self, trainer: Trainer) -> None:
        """Call `on_stop`."""
        self._call("on_stop", trainer)

    def on_end(self, trainer: Trainer) -> None:
        """Call `on_end`."""
        self._call("on_end", trainer)

    def _call(self, method: str, trainer: Trainer, *arguments: Any) -> None:
        for callback in self.callbacks:
            try:
                getattr(callback, method)(trainer, *arguments)
            except Exception as error:
                raise TrainingError(
                    f"The callback {type(callback).__name__} failed in {method}, at step {trainer.position.step}: "
                    f"{type(error).__name__}: {error}",
                    hint="The traceback shows where. The run can be resumed from its last checkpoint.",
                ) from error


def check_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raise TypeError for anything that is not an instance of Callback."""
    listed = isinstance(callbacks, Sequence)
    for callback in callbacks if listed else [callbacks]:
        if not listed or not isinstance(callback, Callback):
            found = f"the class {callback.__name__}" if isinstance(callback, type) else repr(callback)
            raise TypeError(f"callbacks: expected a list of instances of palbert.extend.Callback, found {found}.")
