"""Panels of numbers: what is kept of them for tables of results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from palbert.inference.results import TaskResult
from palbert.reporting.panels.number import CELLS, NumberPanels
from palbert.reporting.wording import Score
from palbert.targets.number import Number

PANELS = NumberPanels(Number())
MakeResult = Callable[..., TaskResult]


def test_numbers_are_counted_on_a_fine_grid() -> None:
    generator = np.random.default_rng(0)
    gold, predicted = generator.uniform(0, 5, 300), generator.uniform(-1, 6, 300)
    cells = PANELS.condense(gold, predicted)
    assert sum(cells["rows"]) == 300
    width = np.ptp(gold) / CELLS
    for numbers, side in ((gold, "gold"), (predicted, "predicted")):
        restored = np.repeat(np.array(cells[side]), np.array(cells["rows"], dtype=np.int64))
        assert np.abs(np.sort(restored) - np.sort(numbers)).max() <= width / 2 + 1e-3


def test_equal_gold_numbers_are_counted_too() -> None:
    cells = PANELS.condense(np.array([2.0, 2.0]), np.array([1.0, 3.0]))
    assert cells == {"gold": [2.0, 2.0], "predicted": [1.0, 3.0], "rows": [1, 1]}


def test_the_largest_error_is_the_worst_with_its_sign(make_result: MakeResult) -> None:
    result = make_result(Number(), gold=np.array([1.0, 2.0, 3.0, 4.0]), predicted=np.array([1.0, 2.5, 0.0, 5.0]))
    errors = PANELS.errors(result)
    assert [(row.gold, row.predicted, row.measure) for row in errors] == [
        ("3.00", "0.00", "−3.00"),
        ("4.00", "5.00", "+1.00"),
        ("2.00", "2.50", "+0.50"),
    ]


@pytest.mark.parametrize(
    ("shift", "words"), [(0.0, "neither too high nor too low"), (0.5, "0.50 too high"), (-0.5, "0.50 too low")]
)
def test_a_systematic_error_is_reported(shift: float, words: str, make_result: MakeResult) -> None:
    gold = np.linspace(0, 5, 20)
    opening = PANELS.opening(make_result(Number(), gold=gold, predicted=gold + shift), Score("pearson", 0.95))
    assert opening.startswith("Predictions follow the gold numbers very closely (pearson 0.950)") and words in opening
