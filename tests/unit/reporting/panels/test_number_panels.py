"""Panels of numbers: what is kept of them for tables of results."""

from __future__ import annotations

import numpy as np

from palbert.reporting.panels.number import CELLS, NumberPanels
from palbert.targets.number import Number

PANELS = NumberPanels(Number())


def test_numbers_are_counted_on_a_grid_and_hardly_moved() -> None:
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
