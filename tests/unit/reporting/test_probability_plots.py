"""Plots of probabilities: they are drawn, say what they show, and cope with few rows."""

from __future__ import annotations

import numpy as np
import pytest

from palbert.metrics.calibration import reliability
from palbert.reporting.probability_plots import coverage_curve, reliability_diagram

pytest.importorskip("matplotlib")


def test_a_reliability_diagram_shows_every_kind() -> None:
    generator = np.random.default_rng(0)
    confidence = generator.uniform(0.5, 1, 200)
    bins = reliability(confidence, generator.random(200) < confidence)
    svg = reliability_diagram({"as trained": bins, "calibrated": bins}, name="spam (dev)")
    assert 'aria-label="Reliability diagram of spam (dev): as trained, calibrated"' in svg
    assert ">as trained<" in svg and ">calibrated<" in svg


def test_one_row_is_enough() -> None:
    assert "<svg" in reliability_diagram({"as trained": reliability(np.array([1.0]), np.array([True]))}, name="a")
    assert "<svg" in coverage_curve(np.array([1.0]), np.array([0.0]), name="a")


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    many = coverage_curve(np.linspace(0.0001, 1, 10_000), np.linspace(1, 0.8, 10_000), name="a")
    assert len(many) < 60_000
