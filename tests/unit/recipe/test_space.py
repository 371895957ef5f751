"""Spaces: numbers and choices are read, mistakes are named, and a space can be written again."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import load_recipe
from palbert.recipe.space import GENERAL, Choices, Numbers, Space, inline, load_space, own_parameters

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEMPERATURE = {"name": "temperature", "temperature": 3.0}


def read(text: str, folder: Path) -> Space:
    path = folder / "space.toml"
    path.write_text(text, "utf-8")
    return load_space(path)


def test_numbers_and_choices_are_read(tmp_path: Path) -> None:
    space = read(
        """[space]
"optimizer.learning_rate" = { low = 1e-5, high = 2e-4, log = true }
"training.epochs" = { low = 2, high = 6 }
"encoder.dropout" = { low = 0, high = 0.4, step = 0.1 }
"training.balance" = ["fixed", "uncertainty"]
"training.sampler" = { choices = ["mixed", { name = "temperature", temperature = 3.0 }] }
""",
        tmp_path,
    )
    assert space.problems == ()
    assert space.dimensions == (
        Numbers("optimizer.learning_rate", 1e-5, 2e-4, log=True),
        Numbers("training.epochs", 2, 6),
        Numbers("encoder.dropout", 0.0, 0.4, step=0.1),
        Choices("training.balance", ("fixed", "uncertainty")),
        Choices("training.sampler", ("mixed", TEMPERATURE)),
    )
    assert [each.whole for each in space.dimensions if isinstance(each, Numbers)] == [False, True, False]


def test_a_space_that_is_written_is_the_same_when_it_is_read(tmp_path: Path) -> None:
    for space in (load_space(GENERAL), load_space({"objectives": [["smart"], [{"name": "smart", "weight": 0.5}]]})):
        assert read(space.toml(), tmp_path).dimensions == space.dimensions


def test_keys_without_quotes_are_the_same_keys(tmp_path: Path) -> None:
    space = read(
        "[space]\noptimizer.layer_decay = { low = 0.7, high = 1.0 }\n[space.training]\nepochs = [2, 4]\n", tmp_path
    )
    assert [each.key for each in space.dimensions] == ["optimizer.layer_decay", "training.epochs"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('"training.epochs" = 3', "training.epochs: expected a list of choices or { low = …, high = … }, found 3."),
        ('"training.epochs" = [3]', "training.epochs: expected a list of two or more choices"),
        ('"training.epochs" = [3, 3]', "training.epochs: the choice 3 is given twice."),
        ('"training.epochs" = { low = 3 }', "training.epochs: high is missing."),
        ('"training.epochs" = { low = 3, hihg = 4 }', "training.epochs: unknown key 'hihg'. Known: choices, high"),
        ('"training.epochs" = { low = 3, hihg = 4 }', "Did you mean 'high'?"),
        ('"training.epochs" = { low = 6, high = 2 }', "training.epochs: expected low < high, found 6 and 2."),
        ('"training.epochs" = { low = "2", high = 6 }', "training.epochs: low: expected a number, found"),
        ('"training.epochs" = { low = 2, high = inf }', "training.epochs: high: expected a number, found inf."),
        ('"encoder.dropout" = { low = 0, high = 0.3, log = true }', "low: expected a number above 0 where log = true"),
        ('"training.epochs" = { low = 2, high = 6, step = 3 }', "step: expected high − low to be a multiple of it"),
        ('"encoder.dropout" = { low = 0.1, high = 0.3, log = 1 }', "log: expected true or false, found 1."),
        ('"optimizer.epsilon" = { low = 0.1, high = 0.3, log = true, step = 0.1 }', "step: cannot be used with log."),
        ('"training.epochs" = { choices = [1, 2], low = 1 }', "unknown key 'low' next to choices."),
        ("seed = [1, 2]", "seed: cannot be searched: scores of trials could not be compared"),
        ('"tasks.sst.metrics" = [["accuracy"], ["macro_f1"]]', "tasks.sst.metrics: cannot be searched"),
    ],
)
def test_a_mistake_is_named_with_its_setting(line: str, problem: str, tmp_path: Path) -> None:
    assert any(problem in found for found in read(f"[space]\n{line}\n", tmp_path).problems)


def test_a_file_without_a_space_is_refused(tmp_path: Path) -> None:
    assert "expected a table with a line per setting" in read("[spice]\na = 1\n", tmp_path).problems[1]
    with pytest.raises(RecipeError, match="no such file"):
        load_space(tmp_path / "nowhere.toml")


def test_overrides_are_what_set_takes_and_parts_come_before_their_options() -> None:
    space = load_space(
        {
            "training.sampler.decay": {"low": 0.1, "high": 0.9},
            "training.sampler": ["annealed", TEMPERATURE],
            "training.epochs": [1, 2],
        }
    )
    label = space.dimensions[1].extremes[1]
    overrides = space.overrides({"training.epochs": 2, "training.sampler": "annealed", "training.sampler.decay": 0.5})
    assert overrides[-1] == "training.sampler.decay=0.5"
    recipe = load_recipe("demo", overrides=overrides)
    assert (recipe.training.epochs, recipe.training.sampler.model_dump()) == (2, {"name": "annealed", "decay": 0.5})
    recipe = load_recipe("demo", overrides=space.overrides({"training.sampler": label}))
    assert recipe.training.sampler.model_dump() == TEMPERATURE


def test_a_recipes_own_values_are_parameters_where_the_space_has_them() -> None:
    space = load_space(
        {
            "training.epochs": {"low": 1, "high": 9},
            "training.batch_size": {"low": 8, "high": 24, "step": 8},
            "optimizer.learning_rate": {"low": 1e-5, "high": 1e-4},
            "optimizer.head_learning_rate": {"low": 1e-5, "high": 1e-4},
            "training.sampler": ["mixed", "annealed"],
            "objectives.0.weight": {"low": 0.1, "high": 1.0},
            "encoder.frozen": [False, True],
        }
    )
    values: dict[str, Any] = {
        "training": {"epochs": 4, "batch_size": 20, "sampler": {"name": "annealed"}},
        "optimizer": {"learning_rate": 3e-4},
        "objectives": [{"name": "smart", "weight": 0.5}],
        "encoder": {"frozen": False},
    }
    assert own_parameters(space, values) == {
        "training.epochs": 4,
        "training.sampler": "annealed",
        "objectives.0.weight": 0.5,
        "encoder.frozen": False,
    }


@pytest.mark.parametrize(
    "value", [True, 3, 1e-5, 0.25, 'a "b"\n', ["x", 1], {"name": "a b", "c d": [1.5, False], "e": {}}]
)
def test_values_on_one_line_are_toml(value: Any) -> None:
    assert tomllib.loads(f"value = {inline(value)}")["value"] == value
    assert "\n" not in inline(value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"low": 1, "high": 10**400}, "high: expected a number from"),
        ({"low": -(10**400), "high": 1}, "low: expected a number from"),
        ({"low": 0.5, "high": 1e308}, "high: expected a number from"),
        ({"low": 1, "high": 5, "step": 1e-320}, "step: expected high − low to be a multiple"),
        ([date(2024, 1, 1), date(2024, 1, 2)], "cannot be a setting of a recipe"),
        ([None, 1], "the choice None cannot be a setting of a recipe"),
    ],
)
def test_values_that_no_search_can_hold_are_problems(line: Any, says: str) -> None:
    [problem] = load_space({"training.epochs": line}).problems
    assert problem.startswith("training.epochs: ") and says in problem
