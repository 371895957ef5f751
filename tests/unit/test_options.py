"""Options: what the checks let pass, and how they report the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest

from palbert.errors import PalbertError, RecipeError
from palbert.options import check_count, check_number, check_options, check_switch, takes


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (-1, {"least": 0}, "rate: expected a number from 0, found -1."),
        (0, {"above": 0}, "rate: expected a number above 0, found 0."),
        (1, {"least": 0, "below": 1}, "rate: expected a number from 0 and below 1, found 1."),
        (2, {"most": 1}, "rate: expected a number up to 1, found 2."),
        (math.inf, {}, "rate: expected a number, found inf."),
        (math.nan, {"finite": False}, "rate: expected a number, found nan."),
        (1e39, {}, "rate: expected a number that float32 can hold (1.2e-38 to 3.4e+38, or 0), found 1e+39."),
        (
            -1e-50,
            {"finite": False},
            "rate: expected a number that float32 can hold (1.2e-38 to 3.4e+38, or 0), found -1e-50.",
        ),
        (True, {}, "rate: expected a number, found True."),
        ("1", {}, "rate: expected a number, found '1'."),
        (10**400, {}, f"rate: expected a number, found 1{'0' * 78}…."),
        (10**5000, {}, "rate: expected a number, found a whole number of thousands of digits."),
    ],
    ids=range(12),  # pytest cannot write the last value either
)
def test_a_number_outside_its_bounds_is_refused(value: Any, bounds: dict[str, Any], message: str) -> None:
    with pytest.raises(PalbertError) as caught:
        check_number("rate", value, **bounds)
    assert str(caught.value) == message


def test_numbers_within_their_bounds_are_returned() -> None:
    assert check_number("rate", 0, least=0, most=1) == 0
    assert check_number("rate", 1, least=0, most=1) == 1
    assert check_number("rate", 0.5, above=0, below=1) == 0.5
    assert check_number("rate", -3.4e38) == -3.4e38
    assert check_number("rate", math.inf, finite=False) == math.inf


def test_counts_are_whole_numbers() -> None:
    assert check_count("heads", 1, least=1) == 1
    for value in (0, 1.0, True, "1"):
        with pytest.raises(PalbertError, match="heads: expected a whole number from 1, found"):
            check_count("heads", value, least=1)  # type: ignore[arg-type]


def test_switches_are_true_or_false() -> None:
    assert check_switch("shared", False) is False
    with pytest.raises(PalbertError, match="shared: expected true or false, found 1"):
        check_switch("shared", 1)  # type: ignore[arg-type]


class Part:
    """A part with an argument by position, a setting, a required option and one with a default."""

    def __init__(self, size: int, *, layers: int, rank: int, scale: float = 1.0) -> None:
        self.size = size * layers * rank * scale


class Open(Part):
    """A part that takes any option."""

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(size, **options)


class Bare:
    """A part without options, and without what palbert passes."""


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({"rank": 2}, []),
        ({"rank": 2, "scale": 3.0}, []),
        ({}, ["option 'rank' is missing."]),
        ({"rank": 2, "scael": 1}, ["unknown option 'scael'. Known: rank, scale. Did you mean 'scale'?"]),
        ({"rank": 2, "layers": 1}, ["'layers' is not an option: palbert sets it. Leave it out."]),
        (
            {"layers": 1, "scael": 1, "size": 2},
            [
                "'layers' is not an option: palbert sets it. Leave it out.",
                "unknown option 'scael'. Known: rank, scale. Did you mean 'scale'?",
                "unknown option 'size'. Known: rank, scale.",
                "option 'rank' is missing.",
            ],
        ),
    ],
)
def test_all_wrong_options_of_a_part_are_reported_together(options: dict[str, Any], problems: list[str]) -> None:
    if not problems:
        check_options(Part, (8,), {"layers": 1}, options, "adapters")
        return
    with pytest.raises(RecipeError) as caught:
        check_options(Part, (8,), {"layers": 1}, options, "adapters")
    found = [" ".join(line.split()) for line in str(caught.value).splitlines()]
    assert found == [f"adapters: {problem}" for problem in problems]


def test_a_part_may_take_any_option() -> None:
    check_options(Open, (8,), {}, {"anything": 1}, "adapters")


def test_a_part_that_does_not_take_what_palbert_passes_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"adapters: unknown option 'rank'\. It takes no options\."):
        check_options(Bare, (), {}, {"rank": 1}, "adapters")
    with pytest.raises(RecipeError, match=r"adapters: .*layers"):
        check_options(Bare, (), {"layers": 1}, {}, "adapters")


def test_takes_looks_at_the_arguments() -> None:
    assert takes(Part, "layers") and not takes(Part, "width") and not takes(Bare, "layers")


@pytest.mark.parametrize("value", [10**9 + 1, 2**63, 10**400, 10**5000], ids=range(4))
def test_a_count_beyond_any_use_is_refused(value: int) -> None:
    assert check_count("size", 10**9) == 10**9
    with pytest.raises(PalbertError, match=r"size: expected a whole number from 0 to 1,000,000,000, found (1|9|a )"):
        check_count("size", value)
