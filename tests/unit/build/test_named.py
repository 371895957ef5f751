"""Named parts: made with the recipe's options; mistakes are attributed to the recipe or to the class."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.build import check_names
from palbert.build.named import check, make
from palbert.errors import RecipeError
from palbert.model.relational import Relation
from palbert.recipe.load import make_recipe
from palbert.registry import RELATIONS
from palbert.tasks.choices import Component
from palbert.training.averaging import NoAverage

pytestmark = pytest.mark.usefixtures("trusted")


class Choosy(NoAverage):
    """A user's own average, with a mistake."""

    def __init__(self, model: Any) -> None:
        raise ZeroDivisionError("my own mistake")


def test_a_mistake_in_a_users_own_class_is_not_called_a_mistake_of_the_recipe(
    tiny_recipe: dict[str, Any],
) -> None:
    tiny_recipe["training"]["average"] = f"{__name__}:Choosy"
    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        check_names(make_recipe(tiny_recipe))


class Broken(Relation):
    """A part in a table whose options are not all checked."""

    def __init__(self, hidden_size: int, *, parts: int = 1) -> None:
        super().__init__()
        self.width = hidden_size / parts

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors


@pytest.mark.parametrize(
    ("parts", "says"), [(0, "relation: division by zero."), ("two", "relation: unsupported operand")]
)
def test_errors_of_torch_or_python_in_a_builtin_part_are_reported_with_their_place(
    tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch, parts: Any, says: str
) -> None:
    monkeypatch.setitem(RELATIONS.paths, "mlp", f"{__name__}:Broken")
    tiny_recipe["relation"] = {"name": "mlp", "tasks": ["quora", "sts"], "parts": parts}
    with pytest.raises(RecipeError, match=says):
        check_names(make_recipe(tiny_recipe))


class Sized(Relation):
    """A user's own relation that takes one hidden size alone, and an offer."""

    def __init__(self, hidden_size: int, *, seed: int = 0, depth: int = 1) -> None:
        super().__init__()
        assert hidden_size == 384
        self.seed, self.depth = seed, depth

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors


OWN = Component(name=f"{__name__}:Sized", depth=3)  # type: ignore[call-arg]


def test_a_part_gets_its_options_and_only_the_offered_arguments_that_it_takes() -> None:
    made = make(RELATIONS, OWN, "relation", 384, offered={"seed": 7, "unused": 1})
    assert (made.seed, made.depth) == (7, 3)


def test_offered_arguments_cannot_be_set_by_the_recipe() -> None:
    with pytest.raises(RecipeError, match=r"relation: 'seed' is not an option: palbert sets it\. Leave it out\."):
        make(RELATIONS, Component(name=OWN.name, seed=3), "relation", 384, offered={"seed": 7})  # type: ignore[call-arg]


def test_the_check_of_a_users_own_class_looks_at_its_options_and_does_not_make_it() -> None:
    check(RELATIONS, OWN, "relation", 8, offered={"seed": 7})
    with pytest.raises(RecipeError, match=r"relation: unknown option 'dept'\. Known: depth\. Did you mean 'depth'\?"):
        check(RELATIONS, Component(name=OWN.name, dept=3), "relation", 8, offered={"seed": 7})  # type: ignore[call-arg]


def test_the_check_of_a_part_of_palbert_looks_at_the_values_too() -> None:
    with pytest.raises(RecipeError, match="relation: expansion: expected a whole number from 1, found 0"):
        check(RELATIONS, Component(name="mlp", expansion=0), "relation", 8)  # type: ignore[call-arg]


class Loss:
    """A loss as a class without arguments."""

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return torch.zeros(())
