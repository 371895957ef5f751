"""Fixtures of the tests of recipes: one trained run, which is the teacher of others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import palbert

SMOKE = Path(__file__).parents[2] / "recipes" / "smoke"


@pytest.fixture(scope="session")
def plain(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the recipe that all others differ from, which is the teacher of some of them too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)  # reports without plots are quicker
        out = tmp_path_factory.mktemp("smoke") / "plain"
        return palbert.train(
            SMOKE / "plain.toml", out=out, overrides=[f"encoder.name={tiny_encoder}", "run.device=cpu"]
        ).path
