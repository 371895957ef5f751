"""Subgroups: areas against scikit-learn, and none for few rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from palbert.bias.subgroups import subgroup_areas


def test_areas_are_those_of_scikit_learn_on_the_rows_of_the_paper() -> None:
    generator = np.random.default_rng(0)
    positive = generator.random(400) < 0.5
    inside = generator.random(400) < 0.4
    scores = positive + inside * 0.7 + generator.normal(0, 1, 400)
    named = [{"gender": {"women"}} if each else {} for each in inside]
    [found] = subgroup_areas(named, positive[:, None], scores[:, None], ["toxic"])

    def area(pos: np.ndarray, neg: np.ndarray) -> float:
        chosen = (positive & pos) | (~positive & neg)
        return float(roc_auc_score(positive[chosen], scores[chosen]))

    assert found["subgroup_auc"] == pytest.approx(area(inside, inside))
    assert found["bpsn_auc"] == pytest.approx(area(~inside, inside))
    assert found["bnsp_auc"] == pytest.approx(area(inside, ~inside))
    assert found["bpsn_auc"] < found["subgroup_auc"] < found["bnsp_auc"]  # scores of the group are too high
    assert (
        found["positive"] == (positive & inside).sum() and found["background_negative"] == (~positive & ~inside).sum()
    )
    assert (found["axis"], found["group"], found["class"]) == ("gender", "women", "toxic")


def test_too_few_rows_give_counts_and_no_areas() -> None:
    positive = np.arange(40) % 2 == 0
    named = [{"age": {"old"}} if number < 19 else {} for number in range(40)]
    [found] = subgroup_areas(named, positive[:, None], np.zeros((40, 1)), ["yes"])
    assert (found["positive"], found["negative"]) == (10, 9)
    assert found["subgroup_auc"] is None and found["bpsn_auc"] is None and found["bnsp_auc"] == 0.5
