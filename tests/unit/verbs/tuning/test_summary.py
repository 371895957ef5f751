"""Summary: the best trial, the Pareto front, and what a reader should know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.recipe.space import load_space
from palbert.verbs.tuning.search import Search
from palbert.verbs.tuning.summary import pareto, summarise

METRICS = {"sst": "accuracy", "age": "mae"}
SPACE = load_space({"optimizer.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}, "training.epochs": [1, 2]})


def trial(number: int, accuracy: float, error: float, state: str = "complete") -> dict[str, Any]:
    return {"number": number, "state": state, "tasks": {"sst": {"accuracy": accuracy}, "age": {"mae": error}}}


def test_the_front_has_trials_that_no_other_beats_on_every_task() -> None:
    trials = [
        trial(0, 0.8, 3.0),
        trial(1, 0.7, 2.0),
        trial(2, 0.7, 3.0),
        trial(3, 0.9, 4.0),
        trial(4, 1.0, 0.0, "pruned"),
    ]
    assert pareto(trials, METRICS) == [0, 1, 3]  # a smaller error is better
    assert pareto([trial(0, 0.8, 3.0), trial(1, 0.8, 3.0)], METRICS) == [0, 1]
    assert pareto([], METRICS) == []


@pytest.fixture
def search(tmp_path: Path) -> Search:
    search = Search(tmp_path / "journal.log", SPACE, seed=0)
    for score in (0.5, 0.7, 0.7):
        asked = search.ask({})
        assert asked is not None
        report = {"overall": score, "formula": "sst.accuracy", "metrics": {"sst": "accuracy"}, "wall": 1.5}
        search.tell(asked.number, "complete", {**report, "tasks": {"sst": {"accuracy": score}}})
    assert search.ask({})
    search.tell(3, "failed", {"reason": "no memory."})
    return search


def test_the_best_is_the_first_with_the_highest_score(search: Search) -> None:
    found = summarise("mine", SPACE, search, None)
    assert found["best"]["number"] == 1 and found["best"]["score"] == 0.7
    assert found["formula"] == "sst.accuracy" and found["metrics"] == {"sst": "accuracy"}
    assert found["space"]["training.epochs"] == {"choices": [1, 2]}
    assert [each["state"] for each in found["trials"]] == ["complete"] * 3 + ["failed"]
    assert found["notes"][0] == "1 trial failed (3): no memory."
    assert "too high by chance" in found["notes"][-1]


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        ({"mean": 0.02, "low": -0.01, "high": 0.05}, "is within chance (−0.0100 to +0.0500)"),
        ({"mean": 0.02, "low": None, "high": None}, "One seed says nothing about chance"),
        (None, "could not be trained for comparison"),
    ],
)
def test_notes_say_what_fresh_seeds_show(search: Search, difference: Any, said: str) -> None:
    runs: dict[str, Any] = {"trial 0001": [], "recipe": []}
    confirmation = {"seeds": [2, 3], "best": 0.66, "recipe": 0.64, "bias": 0.04, "difference": difference, "runs": runs}
    notes = "\n".join(summarise("mine", SPACE, search, confirmation)["notes"])
    assert said in notes
    assert "Trial 1 had 0.7000 in the search, and 0.6600 on average with 2 fresh seeds: −0.0400." in notes
    alone = {**confirmation, "runs": {"recipe": []}}
    assert "found nothing better" in "\n".join(summarise("mine", SPACE, search, alone)["notes"])


def test_a_best_value_at_the_end_of_its_range_suggests_a_wider_one(tmp_path: Path) -> None:
    search = Search(tmp_path / "journal.log", SPACE, seed=0)
    search.ask({"optimizer.learning_rate": 1.01e-5})
    search.tell(0, "complete", {"overall": 0.5})
    [note] = [note for note in summarise("mine", SPACE, search, None)["notes"] if "range" in note]
    assert (
        note == "The best optimizer.learning_rate, 1.01e-05, is at the low end of its range: better ones may be lower."
    )
