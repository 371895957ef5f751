"""Distillation: which goals and options it refuses."""

from __future__ import annotations

import pytest

from palbert.errors import PalbertError
from palbert.objectives import Goal
from palbert.objectives.distillation import Distillation
from palbert.objectives.losses import cross_entropy
from palbert.targets.classes import Classes


@pytest.mark.parametrize(
    ("goal", "options", "said"),
    [
        (Goal(Classes(), cross_entropy, task="sst"), {}, "none of its tasks has teachers"),
        (
            Goal(Classes(), cross_entropy, task="sst", has_teachers=True),
            {"weight": 1.5},
            "weight: expected a number from 0 and up",
        ),
        (
            Goal(Classes(), cross_entropy, task="sst", has_teachers=True),
            {"temperature": 0},
            "temperature: expected a number above 0",
        ),
    ],
)
def test_unsuitable_goals_and_options_are_refused(goal: Goal, options: dict[str, float], said: str) -> None:
    with pytest.raises(PalbertError, match=said):
        Distillation({"sst": goal}, **options)
