"""The report of a search: one page that loads nothing, with the fair figure on top; tables for terminals."""

from __future__ import annotations

import re
from typing import Any

import pytest

from palbert.reporting.tuning_report import fresh_lines, render_tuning, result_table, trials_table

METRICS = {"sst": "accuracy", "sts": "pearson"}
SPACE: dict[str, Any] = {
    "training.epochs": {"low": 2, "high": 6, "log": False, "step": None},
    "training.sampler": {"choices": ["mixed", "x"]},
}


def trial(number: int, state: str = "complete") -> dict[str, Any]:
    scored = state != "failed"
    return {
        "number": number,
        "state": state,
        "score": 0.5 + number / 100 if scored else None,
        "parameters": {"training.epochs": 3, "training.sampler": "mixed"},
        "tasks": {"sst": {"accuracy": 0.4}, "sts": {"pearson": 0.6 + number / 10}} if scored else {},
        "evaluations": [0.3, 0.5],
        "epoch": 2,
        "seconds": 12.0,
        "reason": "" if scored else "<script>no memory</script>",
        "run": f"trials/{number:04}",
    }


CONFIRMATION: dict[str, Any] = {
    "seeds": [1, 2],
    "trial": 1,
    "runs": {
        "trial 0001": [{"seed": seed, "state": "complete", "overall": 0.42 + seed / 50} for seed in (1, 2)],
        "recipe": [{"seed": 1, "state": "failed", "reason": "gone"}, {"seed": 2, "state": "complete", "overall": 0.43}],
    },
    "best": 0.45,
    "recipe": 0.43,
    "bias": 0.06,
    "difference": {"mean": 0.03, "low": None, "high": None},
}  # fmt: skip


def summary(**changes: Any) -> dict[str, Any]:
    trials = [trial(0), trial(1), trial(2, "pruned"), trial(3, "failed")]
    found = {
        "recipe": "mine", "seed": 0, "space": SPACE, "formula": "sst.accuracy", "metrics": METRICS, "trials": trials,
        "best": trials[1], "importances": {"training.epochs": 1.0}, "pareto": [1], "confirmation": None,
        "notes": ["A note."],
    }  # fmt: skip
    return {**found, **changes}


@pytest.mark.parametrize("confirmation", [None, CONFIRMATION])
def test_the_page_is_complete_and_loads_nothing(confirmation: Any) -> None:
    page = render_tuning("mine-tuned", summary(confirmation=confirmation), recipe="a = '<x>'", space="[space]")
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    assert "<script>no memory" not in page and "&lt;script&gt;no memory" in page and "a = &#39;&lt;x&gt;&#39;" in page
    assert "A note." in page and "2 complete, 1 pruned, 1 failed" in page
    assert ("Fresh seeds" in page) == (confirmation is not None)
    figure = re.search(r'class="figure-number">([^<]*)<', page)
    assert figure and figure[1] == ("0.450" if confirmation else "0.510")


@pytest.mark.parametrize(
    ("bias", "said"), [(0.06, "0.0600 less than"), (-0.06, "0.0600 more than"), (1e-6, "the score that")]
)
def test_fresh_seeds_are_compared_with_the_search(bias: float, said: str) -> None:
    page = render_tuning("mine", summary(confirmation={**CONFIRMATION, "bias": bias}), recipe="", space="")
    assert f"settings have {said} the search said." in page


def test_a_search_without_a_complete_trial_has_a_page() -> None:
    page = render_tuning("mine", summary(best=None, trials=[trial(0, "failed")], pareto=[]), recipe="", space="")
    assert "No trial is complete." in page and "Best recipe" not in page


def test_the_table_of_trials_has_the_best_first_and_failures_last() -> None:
    table = trials_table(summary())
    assert table.header == ("trial", "state", "overall", "sst", "sts", "training.epochs", "training.sampler")
    assert [row[0] for row in table.rows] == ["1", "0", "2", "3"]
    assert table.rows[0] == ("1", "complete", "0.5100", "0.400", "0.700", "3", "mixed")
    assert table.rows[3][2:4] == ("–", "–")


def test_the_result_shows_the_best_settings_next_to_what_was_searched() -> None:
    table = result_table(summary(confirmation=CONFIRMATION))
    assert table.rows == [("training.epochs", "3", "2 … 6"), ("training.sampler", "mixed", "mixed, x")]
    assert "Best: trial 1, overall 0.5100 (sst 0.400, sts 0.700)" in table.lines
    assert "With fresh seeds: best 0.4500, recipe as given 0.4300, difference +0.0300" in table.lines
    assert fresh_lines(None) == []
    assert "–" in result_table(summary(best=None)).rows[0]
