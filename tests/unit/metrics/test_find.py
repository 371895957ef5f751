"""Finding metrics: by name, or a user's own function; what is not a metric is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palbert.build.check import check_metric
from palbert.errors import PalbertError
from palbert.metrics import find_metric
from palbert.registry import TARGETS
from palbert.targets import Target

pytestmark = pytest.mark.usefixtures("trusted")

OWN = """
import numpy as np

def share_right(gold, predicted):
    return (gold == predicted).mean()

def each_right(gold, predicted):
    return gold == predicted

def needs_options(gold, predicted, options):
    return 1.0

def breaks(gold, predicted):
    return gold["label"]

class Scorer:
    def __init__(self, gold, predicted):
        pass
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_scores.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


def target(name: str) -> Target:
    made: Target = TARGETS[name](classes=("a", "b", "c") if name == "classes" else ())
    made.choice = name
    return made


def test_an_unknown_metric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PalbertError, match="Did you mean 'pearson'"):
        find_metric("pearsons")


def test_a_metric_that_does_not_fit_the_target_is_refused() -> None:
    with pytest.raises(PalbertError, match=r"does not fit a number task. Use one of: explained_variance, mae"):
        check_metric("accuracy", target("number"))


def test_a_user_function_may_be_a_metric() -> None:
    metric = find_metric("numpy:dot")
    assert (metric.name, metric(np.array([1, 2]), np.array([3, 4]))) == ("numpy:dot", 11)
    check_metric("own_scores:share_right", target("classes"))
    check_metric("own_scores:share_right", target("number"))


@pytest.mark.parametrize("name", ["own_scores:needs_options", "own_scores:Scorer"])
def test_what_does_not_take_gold_and_predicted_values_is_not_a_metric(name: str) -> None:
    with pytest.raises(PalbertError, match=f"'{name}' is not a metric: expected a function of two arguments"):
        check_metric(name, target("classes"))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("own_scores:each_right", "returned array.*expected one finite number"),
        ("builtins:print", "is not a metric: it belongs to Python itself"),
        ("own_scores:breaks", "failed on 32 made-up rows: IndexError: .*called with two NumPy arrays"),
    ],
)
def test_a_function_that_is_not_a_metric_is_refused_before_training(name: str, found: str) -> None:
    with pytest.raises(PalbertError, match=f"(?s){found}"):
        check_metric(name, target("classes"))
