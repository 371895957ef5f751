"""Results: which rows are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.inference.results import TaskResult
from palbert.targets.multilabel import Multilabel


@pytest.mark.parametrize(
    ("gold", "predicted", "wrong"),
    [
        (np.array([0, 1, 2]), np.array([0, 2, 2]), [False, True, False]),
        (np.array([0.5, 1.0]), np.array([0.5, 1.1]), [False, True]),
        (np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, 0], [0, 1], [0, 0]]), [False, True, False]),
        (np.array([], dtype=np.int64), np.array([], dtype=np.int64), []),
    ],
)
def test_a_row_is_wrong_if_any_of_its_values_is(gold: np.ndarray, predicted: np.ndarray, wrong: list[bool]) -> None:
    found = TaskResult("mine", "dev", Multilabel(), "micro_f1", {}, [], [], gold, predicted, None)
    assert found.wrong.tolist() == wrong
