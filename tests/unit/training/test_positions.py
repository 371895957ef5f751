"""Positions: every state that training comes through is accepted, and others are refused by their field."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import CheckpointError
from palbert.training.positions import SavedPosition, check_trainer
from palbert.training.samplers import Consecutive, Proportional, RoundRobin, Sampler, Settings
from palbert.training.trainer import Position

SIZES = {"a": 4, "b": 2}
BEST = ("best", "best-a")
PATH = Path("last/trainer.json")


def make_sampler() -> Sampler:
    settings = Settings(
        rows={"a": 20, "b": 6}, batch_sizes=SIZES, tasks={"a": "a", "b": "b"}, epochs=2, steps=5, seed=3
    )
    return Consecutive([Proportional(settings), RoundRobin(settings)])


def states(sampler: Sampler) -> list[dict[str, Any]]:
    """Return the state at every step of a run, also between the last step of an epoch and its evaluation."""
    found, draws, step = [], Counter({"a": 0, "b": 0}), 0
    for epoch in range(1, sampler.epochs + 1):
        for done, sets in enumerate([(), *sampler.epoch(epoch)]):
            step += done > 0
            draws.update({name: SIZES[name] for name in sets})
            position = {"epoch": epoch, "done": done, "step": step, "draws": dict(draws), "evaluated": step}
            position |= {"seconds": 1.5, "elapsed": 2, "losses": {"a": [0.5, float("nan")]}, "cosines": {"a b": [0.1]}}
            found.append({"position": position, "best": {"best": -0.5, "best-a": 1}})
    end = {"epoch": sampler.epochs + 1, "done": 0, "step": step, "draws": dict(draws)}  # as earlier versions wrote it
    return [*found, {"position": end, "best": {}}]


def check(state: dict[str, Any]) -> None:
    check_trainer(PATH, state, sampler=make_sampler(), batch_sizes=lambda epoch: SIZES, best=BEST)


def test_every_field_of_a_position_is_checked() -> None:
    assert SavedPosition.model_fields.keys() == {field.name for field in fields(Position)}


def test_every_state_of_a_run_is_accepted() -> None:
    every = states(make_sampler())
    assert len(every) == 4 * 6 + 1
    for state in every:
        check(state)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("step", 9999, r"step: expected 8, as epoch and done say, found 9999"),
        ("step", -1, r"step: .*greater than or equal to 0, found -1"),
        ("step", "8", r"step: .*integer, found '8'"),
        ("step", 8.0, r"step: .*integer, found 8.0"),
        ("step", True, r"step: .*integer, found True"),
        ("epoch", 0, r"epoch: .*greater than 0"),
        ("epoch", 6, r"epoch: expected at most 5, after the last epoch, found 6"),
        ("epoch", 2**63, r"epoch: expected at most 5"),
        ("done", 6, r"done: expected at most 5, the steps of epoch 2, found 6"),
        ("done", None, r"done: .*integer, found None"),
        ("evaluated", 9, r"evaluated: expected at most 8"),
        ("draws", {"a": -4, "b": 2}, r"draws.a: .*greater than or equal to 0, found -4"),
        ("draws", {"a": 4, "b": 2}, r"draws.[ab]: expected \d+, as the plan says"),
        ("draws", {"a": 0}, r"draws.[ab]: expected"),
        ("draws", [], r"draws: .*dictionary"),
        ("seconds", float("nan"), r"seconds: "),
        ("elapsed", -1.0, r"elapsed: "),
        ("losses", {"c": [0.5]}, r"losses.c: no such set; there are: a, b"),
        ("losses", {"a": ["x"]}, r"losses.a.0: .*number, found 'x'"),
        ("other", 1, r"other: "),
    ],
)
def test_a_state_that_is_not_of_the_plan_is_refused_by_its_field(field: str, value: Any, says: str) -> None:
    state = copy.deepcopy(next(each for each in states(make_sampler()) if each["position"]["step"] == 8))
    state["position"][field] = value
    with pytest.raises(CheckpointError, match=rf"last/trainer.json: position.{says}.*--force"):
        check(state)


def test_draws_of_an_unknown_set_are_refused() -> None:
    state = copy.deepcopy(states(make_sampler())[3])
    state["position"]["draws"]["c"] = 0
    with pytest.raises(CheckpointError, match=r"position.draws.c: no such set"):
        check(state)


@pytest.mark.parametrize("field", ["epoch", "done", "step", "draws"])
def test_a_missing_field_is_refused(field: str) -> None:
    state = copy.deepcopy(states(make_sampler())[3])
    del state["position"][field]
    with pytest.raises(CheckpointError, match=rf"position.{field}: Field required"):
        check(state)


@pytest.mark.parametrize(
    ("best", "says"),
    [
        ({"best": "high"}, r"best.best: .*number, found 'high'"),
        ({"best": float("nan")}, r"best.best: .*finite"),
        ({"best-c": 0.5}, r"best.best-c: expected only best, best-a"),
        ([], r"best: .*dictionary"),
    ],
)
def test_best_scores_are_numbers_of_known_checkpoints(best: Any, says: str) -> None:
    with pytest.raises(CheckpointError, match=rf"trainer.json: {says}"):
        check({**states(make_sampler())[3], "best": best})
