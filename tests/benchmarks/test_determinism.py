"""The benchmark of deterministic mode measures both modes, and finds that they repeat on the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def test_it_measures_both_modes(script: Callable[[str], Any], capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--shape", "tiny", "--size", "2", "--batches", "2", "--rounds", "1"]
    script("determinism").main(["--device", "cpu", *sizes])
    facts = json.loads(capsys.readouterr().out)
    assert facts["ratio"] == pytest.approx(facts["deterministic"] / facts["default"])
    assert facts["default_repeats"] and facts["deterministic_repeats"]
