"""Origin: the checkpoints that a model was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palbert.errors import CheckpointError
from palbert.runtime.files import sha256
from palbert.verbs.origin import Ingredient, public_description, public_origin


def test_an_ingredient_is_known_by_place_and_content(trained: Path) -> None:
    best = trained / "checkpoints" / "best"
    assert Ingredient.of(best) == Ingredient(str(best.resolve()), sha256(best / "model.safetensors"))


def test_in_public_a_checkpoint_is_named_without_the_folders_that_its_run_is_in() -> None:
    origin = {
        "verb": "merge",
        "checkpoints": [
            {"checkpoint": "/home/ada/runs/one/checkpoints/best", "sha256": "a"},
            {"checkpoint": "/home/ada/two", "sha256": "b"},
        ],
        "tasks": [],
    }
    found = public_origin(origin)
    assert [each["checkpoint"] for each in found["checkpoints"]] == ["one/checkpoints/best", "two"]
    assert [each["sha256"] for each in found["checkpoints"]] == ["a", "b"] and found["verb"] == "merge"


@pytest.mark.parametrize("origin", [None, 3, {}, {"checkpoints": None}, {"checkpoints": [{"checkpoint": 3}]}, ["x"]])
def test_a_damaged_origin_is_not_made_public(origin: Any) -> None:
    with pytest.raises(CheckpointError, match=r"palbert\.json: origin: expected the checkpoints"):
        public_description({"origin": origin})


def test_a_model_without_origin_is_described_as_it_is() -> None:
    assert public_description({"format": 1}) == {"format": 1}
