"""Positions: whether the trainer's state in a checkpoint is one that the run's plan leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt, ValidationError

from palbert.errors import CheckpointError
from palbert.training.samplers import Sampler

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SavedPosition(BaseModel):
    """The fields of `Position` in trainer.json; earlier versions lack some."""

    model_config = ConfigDict(strict=True, extra="forbid")

    epoch: PositiveInt
    done: NonNegativeInt
    step: NonNegativeInt
    draws: dict[str, NonNegativeInt]
    evaluated: NonNegativeInt = 0
    seconds: Seconds = 0.0
    elapsed: Seconds = 0.0
    losses: dict[str, list[float]] = {}
    cosines: dict[str, list[float]] = {}
    recent: dict[str, list[float]] = {}
    highest: dict[str, float] = {}


class SavedTrainer(BaseModel):
    """The content of trainer.json."""

    model_config = ConfigDict(strict=True)

    position: SavedPosition
    best: dict[str, FiniteFloat]


def check_trainer(
    path: Path,
    facts: Mapping[str, Any],
    *,
    sampler: Sampler,
    batch_sizes: Callable[[int], Mapping[str, int]],
    best: Collection[str],
) -> None:
    """Raise CheckpointError, with the name of the field, for a state that a run with this plan never has.

    Args:
        path: trainer.json.
        facts: Its content.
        sampler: The plan of the whole run.
        batch_sizes: Return the rows that a step draws from each set in an epoch, counted from 1.
        best: The names of checkpoints that may have a best score.
    """
    try:
        saved = SavedTrainer.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        raise _error(path, ".".join(map(str, first["loc"])), f"{first['msg']}, found {first['input']!r:.60}") from None
    unknown = sorted(saved.best.keys() - set(best))
    if unknown:
        raise _error(path, f"best.{unknown[0]}", f"expected only {', '.join(sorted(best))}")
    for field, problem in _problems(saved.position, sampler, batch_sizes):
        raise _error(path, f"position.{field}", problem)


def _problems(
    position: SavedPosition, sampler: Sampler, batch_sizes: Callable[[int], Mapping[str, int]]
) -> Iterator[tuple[str, str]]:
    """Yield fields that do not fit the plan, each with what is wrong; later checks rely on earlier ones."""
    epoch, done = position.epoch, position.done
    if epoch > sampler.epochs + 1:
        yield "epoch", f"expected at most {sampler.epochs + 1}, after the last epoch, found {epoch}"
    length = sampler.length(epoch) if epoch <= sampler.epochs else 0
    if done > length:
        yield "done", f"expected at most {length}, the steps of epoch {epoch}, found {done}"
    step = (0, *sampler.ends)[epoch - 1] + done
    if position.step != step:
        yield "step", f"expected {step}, as epoch and done say, found {position.step}"
    if position.evaluated > step:
        yield "evaluated", f"expected at most {step}, the steps done, found {position.evaluated}"
    for field in ("losses", "recent", "highest", "draws"):
        unknown = sorted(getattr(position, field).keys() - sampler.rows.keys())
        if unknown:
            yield f"{field}.{unknown[0]}", f"no such set; there are: {', '.join(sampler.rows)}"
    drawn = _drawn(epoch, done, sampler, batch_sizes)
    for name in sampler.rows:
        if position.draws.get(name) != drawn[name]:
            yield f"draws.{name}", f"expected {drawn[name]}, as the plan says, found {position.draws.get(name)}"


def _drawn(epoch: int, done: int, sampler: Sampler, batch_sizes: Callable[[int], Mapping[str, int]]) -> Counter[str]:
    """Count the rows of every set that are drawn up to a position."""
    drawn: Counter[str] = Counter()
    for number in range(1, min(epoch, sampler.epochs) + 1):
        plan, sizes = sampler.epoch(number), batch_sizes(number)
        steps = Counter(chain.from_iterable(plan if number < epoch else plan[:done]))
        drawn.update({name: count * sizes[name] for name, count in steps.items()})
    return drawn


def _error(path: Path, field: str, problem: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: {field}: {problem}.", hint="Train again with --force, or into another folder with --out."
    )
