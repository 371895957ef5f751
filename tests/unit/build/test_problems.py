"""Problems: errors of several checks are kept, and raised together."""

from __future__ import annotations

import pytest

from palbert.build.problems import Problems
from palbert.errors import MissingExtraError, PalbertError, RecipeError


def collected(*errors: PalbertError, place: str = "") -> PalbertError:
    """Return what is raised after these errors."""
    problems = Problems()
    for error in errors:
        with problems.collect(place):
            raise error
    with pytest.raises(PalbertError) as caught:
        problems.report()
    return caught.value


def test_without_problems_nothing_is_raised() -> None:
    problems = Problems()
    with problems.collect():
        pass
    problems.report()


def test_a_single_problem_is_raised_unchanged() -> None:
    missing = MissingExtraError("Plots need", package="matplotlib", extra="plots")
    assert collected(missing) is missing
    found = collected(RecipeError("training.sampler: wrong.", hint="Take another."))
    assert (found.message, found.hint) == ("training.sampler: wrong.", "Take another.")


def test_several_problems_are_one_recipe_error_with_a_line_for_each() -> None:
    missing = MissingExtraError("Plots need", package="matplotlib", extra="plots")
    found = collected(RecipeError("a: wrong.", hint="Take b."), missing, RecipeError("c: wrong.\nd: wrong."))
    assert type(found) is RecipeError and found.exit_code == 2
    assert str(found).splitlines() == [
        "a: wrong. Take b.",
        "Plots need matplotlib. Install it with: pip install 'palbert[plots]'",
        "c: wrong.",
        "d: wrong.",
    ]


def test_the_place_is_put_in_front_of_every_line() -> None:
    found = collected(RecipeError("a: wrong.\nb: wrong.", hint="Change it."), place="phases.1.")
    assert (found.message, found.hint) == ("phases.1.a: wrong.\nphases.1.b: wrong.", "Change it.")


def test_a_problem_that_is_found_twice_is_reported_once() -> None:
    assert str(collected(RecipeError("a: wrong."), RecipeError("a: wrong."))) == "a: wrong."


def test_other_errors_are_not_kept() -> None:
    with pytest.raises(ZeroDivisionError), Problems().collect():
        raise ZeroDivisionError
