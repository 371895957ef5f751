"""Number formats: a short training ends where it ends in float32, within a bound."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch

from palbert.training.hooks import read_records
from palbert.verbs import train as verb

MakeRecipe = Any
BOUND = {"tf32": 0.02, "bf16": 0.05, "fp16": 0.05}
"""By how much the mean loss of the last steps may differ, relative to float32."""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", BOUND)
def test_a_short_training_ends_close_to_one_in_float32(recipe: MakeRecipe, tmp_path: Path, precision: str) -> None:
    def losses(name: str) -> list[float]:
        made = recipe(
            training={"epochs": 1, "steps_per_epoch": 120, "sampler": "mixed", "log_every": 1},
            optimizer={"learning_rate": 1e-3},
            run={"device": "cuda", "precision": name},
        )
        records = read_records(verb.train(made, out=tmp_path / name) / "metrics.jsonl")
        return [sum(record["losses"].values()) for record in records if record["kind"] == "train"]

    exact, rounded = losses("fp32"), losses(precision)
    assert mean(exact[-30:]) < 0.9 * mean(exact[:10])  # it learns
    assert mean(rounded[-30:]) == pytest.approx(mean(exact[-30:]), rel=BOUND[precision])
