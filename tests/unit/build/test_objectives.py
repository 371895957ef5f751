"""The objectives of a recipe: which sets a term gets, and what it knows about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.build.objectives import make_objectives
from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe


def recipe(tmp_path: Path, *objectives: Any, **task: Any) -> Recipe:
    extra = {"snli": {}, "made": {"train": "made.tsv", "form": "triplets", "text": ["a", "b", "c"]}}
    tasks = {"sst": task, "quora": {"extra": extra}}
    values = {"data": "samples", "tasks": tasks, "objectives": list(objectives)}
    return make_recipe(values, folder=tmp_path, check_files=False)


@pytest.mark.parametrize(
    ("objective", "sets"),
    [
        ("rdrop", {"sst": "sst", "quora": "quora", "quora+snli": "quora"}),
        ({"name": "rdrop", "tasks": ["quora"]}, {"quora": "quora", "quora+snli": "quora"}),
        ({"name": "smart", "tasks": ["sst"]}, {"sst": "sst"}),
        ("supervised-simcse", {"quora+made": "quora"}),
        ({"name": "supervised-simcse", "tasks": ["sst"]}, {}),
    ],
)
def test_a_term_is_given_the_sets_of_its_tasks_that_it_can_take(
    tmp_path: Path, objective: Any, sets: dict[str, str]
) -> None:
    [term] = make_objectives(recipe(tmp_path, objective)).terms
    assert {name: goal.task for name, goal in term.goals.items()} == sets


def test_every_set_has_a_loss_and_is_balanced(tmp_path: Path) -> None:
    objectives = make_objectives(recipe(tmp_path))
    names = ["sst", "quora", "quora+snli", "quora+made"]
    assert list(objectives.supervised.losses) == names == list(objectives.balance.goals)


@pytest.mark.parametrize("gamma", ["2", -1, True])
def test_an_option_of_a_loss_that_is_not_a_number_is_refused(tmp_path: Path, gamma: Any) -> None:
    given = recipe(tmp_path, loss={"name": "focal", "gamma": gamma})
    with pytest.raises(RecipeError, match=r"tasks\.sst\.loss: gamma: expected a number from 0"):
        make_objectives(given)


def test_joint_pairs_are_marked_and_triplets_are_not(tmp_path: Path) -> None:
    goals = make_objectives(recipe(tmp_path)).balance.goals
    assert {name: goal.joint for name, goal in goals.items()} == {
        "sst": False, "quora": True, "quora+snli": True, "quora+made": False
    }  # fmt: skip


def test_distilling_a_task_twice_is_refused(tmp_path: Path) -> None:
    given = recipe(tmp_path, "distillation", "distillation", teachers=["some/run"])
    with pytest.raises(RecipeError, match="two distillations of one task"):
        make_objectives(given)
