"""Panels: found by the name that a target gives, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from palbert.errors import RecipeError
from palbert.inference.results import TaskResult
from palbert.registry import PANELS, TARGETS
from palbert.reporting.panels import panels_of
from palbert.reporting.panels.panels import CLIP, WORST
from palbert.targets.classes import Classes

MakeResult = Callable[..., TaskResult]


class Odd(Classes):
    """A target whose panels are of a wrong class."""

    panels = "palbert.metrics:accuracy"


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_panels(name: str) -> None:
    target = TARGETS[name](classes=("a", "b"))
    assert type(panels_of(target)) is PANELS[target.panels]


def test_sections_of_results_are_not_shared_by_different_panels() -> None:
    sections = [panels.section for panels in PANELS.values() if panels.section]
    assert sorted(set(sections)) == ["confusion", "multilabel", "numbers"]


@pytest.mark.usefixtures("trusted")
def test_panels_of_a_wrong_class_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"Odd\.panels: 'palbert\.metrics:accuracy' is not a set of panels"):
        panels_of(Odd(classes=("a", "b")))


def test_a_few_of_many_errors_are_shown_and_long_texts_are_folded(make_result: MakeResult) -> None:
    target = Classes(classes=("a", "b"))
    result = make_result(target, gold=[0] * 50, predicted=[1] * 50)
    result.texts[0] = ("word " * CLIP,)
    errors = panels_of(target).errors(result)
    assert len(errors) == WORST
    [(shown, folded)] = errors[0].texts
    assert len(shown) <= CLIP and shown + folded == "word " * CLIP
    assert errors[1].texts == [("text 1", "")]
