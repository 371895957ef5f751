"""The overall score: its formula as computed and as written."""

from __future__ import annotations

import pytest

from palbert.errors import PalbertError
from palbert.metrics import formula_text, overall
from palbert.registry import METRICS

SCORES = {"sst": ("accuracy", 0.516), "quora": ("accuracy", 0.862), "sts": ("pearson", 0.866)}
NAMES = {task: metric for task, (metric, _) in SCORES.items()}


def test_scaled_mean_is_the_formula_of_the_reports() -> None:
    assert overall(SCORES, "scaled-mean") == pytest.approx((0.516 + 0.862 + (0.866 + 1) / 2) / 3)
    text = "(sst.accuracy + quora.accuracy + (sts.pearson + 1) / 2) / 3"
    assert formula_text(NAMES, "scaled-mean") == text


def test_mean_does_not_scale_the_scores() -> None:
    assert overall(SCORES, "mean") == pytest.approx((0.516 + 0.862 + 0.866) / 3)
    assert formula_text(NAMES, "mean") == "(sst.accuracy + quora.accuracy + sts.pearson) / 3"


def test_the_formula_of_one_task_has_no_division() -> None:
    assert formula_text({"sst": "accuracy"}) == "sst.accuracy"
    assert formula_text({"sts": "pearson"}) == "(sts.pearson + 1) / 2"


@pytest.mark.parametrize("name", METRICS)
def test_the_written_formula_gives_the_overall_score(name: str) -> None:
    class Scores:
        pass

    scores = Scores()
    setattr(scores, name, 0.3)
    written = formula_text({"a": name, "b": "accuracy"})
    other = type("Other", (), {"accuracy": 0.7})
    value = eval(written, {"a": scores, "b": other})
    assert overall({"a": (name, 0.3), "b": ("accuracy", 0.7)}) == pytest.approx(value)


def test_a_lower_error_gives_a_higher_overall_score() -> None:
    assert overall({"sts": ("mse", 0.2)}) > overall({"sts": ("mse", 0.9)})


def test_the_plain_mean_refuses_a_metric_where_lower_is_better() -> None:
    with pytest.raises(PalbertError, match=r"cannot hold sts.mse.*scaled-mean"):
        overall({"sts": ("mse", 0.2)}, "mean")


def test_an_overall_score_of_nothing_is_refused() -> None:
    with pytest.raises(PalbertError, match="at least one task"):
        overall({})
