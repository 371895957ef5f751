"""Plots of a search: every trial is drawn where its settings and scores are."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.reporting import tuning_plots

pytest.importorskip("matplotlib")

SPACE: dict[str, Any] = {
    "optimizer.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True, "step": None},
    "training.epochs": {"low": 2, "high": 6, "log": False, "step": None},
    "training.sampler": {"choices": ["mixed", "annealed <b>"]},
}


def trial(number: int, score: float | None, state: str = "complete") -> dict[str, Any]:
    values = {"optimizer.learning_rate": 1e-4, "training.epochs": 2 + number, "training.sampler": "annealed <b>"}
    return {"number": number, "state": state, "score": score, "parameters": values, "evaluations": [0.1, 0.2]}


TRIALS = [trial(0, 0.5), trial(1, 0.7), trial(2, 0.4, "pruned"), trial(3, None, "failed")]


def test_values_have_their_place_in_the_range() -> None:
    assert tuning_plots.share(SPACE["optimizer.learning_rate"], 1e-4) == pytest.approx(0.5)
    assert tuning_plots.share(SPACE["training.epochs"], 3) == 0.25
    assert tuning_plots.share(SPACE["training.sampler"], "annealed <b>") == 1.0
    assert tuning_plots.share({"low": 0.5, "high": 0.5}, 0.5) == 0.5


def test_every_plot_is_an_inline_drawing() -> None:
    drawn = [
        tuning_plots.history(TRIALS),
        tuning_plots.history(TRIALS, fresh=0.6),
        tuning_plots.evaluation_curves(TRIALS, best=1),
        tuning_plots.importances({"training.epochs": 0.8, "training.sampler": 0.2}),
        tuning_plots.parallel_coordinates(TRIALS, SPACE, best=1),
        *(tuning_plots.slice_plot(key, values, TRIALS, best=1) for key, values in SPACE.items()),
        tuning_plots.pareto_front({0: (0.5, 0.6), 1: (0.6, 0.5)}, [0, 1], x="sst accuracy", y="sts pearson"),
    ]
    assert all(svg.startswith("<svg ") and "aria-label" in svg for svg in drawn)
    assert len(set(drawn)) == len(drawn)
    assert not any("<b>" in svg or "mathdefault" in svg for svg in drawn)


def test_the_history_names_what_it_shows() -> None:
    assert "pruned" in tuning_plots.history(TRIALS) and "pruned" not in tuning_plots.history(TRIALS[:2])
    assert "fresh seeds" in tuning_plots.history(TRIALS, fresh=0.6)
    assert "fresh seeds" not in tuning_plots.history(TRIALS)


def test_a_search_of_one_trial_can_be_drawn() -> None:
    assert tuning_plots.parallel_coordinates(TRIALS[:1], SPACE, best=0).startswith("<svg ")
    assert tuning_plots.history(TRIALS[:1]).startswith("<svg ")
