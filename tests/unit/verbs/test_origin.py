"""Origin: the checkpoints that a model was made from."""

from __future__ import annotations

from pathlib import Path

from palbert.runtime.files import sha256
from palbert.verbs.origin import Ingredient


def test_an_ingredient_is_known_by_place_and_content(trained: Path) -> None:
    best = trained / "checkpoints" / "best"
    assert Ingredient.of(best) == Ingredient(str(best.resolve()), sha256(best / "model.safetensors"))
