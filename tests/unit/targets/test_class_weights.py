"""Class weights: what a recipe may give, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.targets.class_weights import weights_in_order


def test_weights_come_from_a_list_or_a_table_by_name() -> None:
    assert weights_in_order([1, 2.5], ("no", "yes")) == (1.0, 2.5)
    assert weights_in_order({"yes": 3, "no": 2}, ("no", "yes")) == (2.0, 3.0)
    assert weights_in_order("balanced", ("no", "yes")) == "balanced"


def test_a_class_that_a_table_does_not_name_has_weight_1() -> None:
    assert weights_in_order({"yes": 3}, ("no", "yes")) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("even", 'takes "balanced", a list'),
        (3, 'takes "balanced", a list'),
        ([1, True], 'takes "balanced", a list'),
        ([1], "for each of 2 classes, found 1"),
        ([1, -1], "numbers from 0"),
        ([0, 0], "not all of them 0"),
        ([1, float("inf")], "numbers from 0"),
        ({"maybe": 2}, "names 'maybe', which is not one of no, yes"),
    ],
)
def test_other_values_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        weights_in_order(weights, ("no", "yes"))


def recipe(task: str, **settings: Any) -> Any:
    return make_recipe({"data": "samples", "tasks": {task: settings}}).tasks[task]


def test_a_recipe_keeps_class_weights_in_index_order() -> None:
    assert recipe("quora", class_weights={"duplicate": 2}).class_weights == (1.0, 2.0)
    assert recipe("sst", class_weights="balanced").class_weights == "balanced"
    assert recipe("sst").class_weights == ()


def test_a_number_has_no_class_weights() -> None:
    with pytest.raises(RecipeError, match="for targets with one class per row; this task's target is 'number'"):
        recipe("sts", class_weights="balanced")


def test_several_classes_per_row_have_no_class_weights_and_the_error_has_a_remedy() -> None:
    topics = {"kind": "single", "target": "multilabel", "classes": ["a", "b"], "text": "message", "label": "topics"}
    files = {"train": "topics-train.tsv", "dev": "topics-dev.tsv"}
    with pytest.raises(RecipeError, match=r'may have several.*set threshold = "f1"'):
        recipe("topics", **topics, **files, class_weights="balanced")


def test_class_weights_and_a_prior_exclude_each_other() -> None:
    with pytest.raises(RecipeError, match="class_weights and prior both change the class shares"):
        recipe("quora", class_weights="balanced", prior=0.3)
