"""Fixtures of the tests of searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tuned import quick_values


@pytest.fixture
def values(tmp_path: Path, tiny_encoder: Path) -> dict[str, Any]:
    """Return the values of a recipe that trains in a moment."""
    return quick_values(tmp_path, tiny_encoder)
