"""ModernBERT from a folder to answers: every part of palbert that knows an encoder works with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import palbert
from palbert.errors import RecipeError
from palbert.model.pretrained import load_encoder
from palbert.registry import ADAPTERS
from palbert.runtime.precision import has_int8

pytestmark = pytest.mark.usefixtures("no_plots", "on_cpu")
TEXTS = ["A warm and generous film with a slow start that nobody minds in the end .", "Dull ."]
CHANGES: dict[str, dict[str, Any]] = {
    "plain": {},
    **{f"adapter {name}": {"adapters": {"name": name, **({"size": 12} if name == "pal" else {})}} for name in ADAPTERS},
    "mixout": {"encoder": {"mixout": 0.4}},
    "pcgrad": {"training": {"sampler": "mixed", "gradients": "pcgrad"}},
    "layer decay": {"optimizer": {"layer_decay": 0.9}},
    "smart": {"objectives": ["smart"]},
    "simcse": {"objectives": [{"name": "simcse", "dropout": 0.3}]},
}
Train = Callable[..., Path]


@pytest.fixture
def train(
    tiny_recipe: dict[str, Any], tiny_modernbert: Path, tmp_path: Path, write_recipe: Callable[..., Path]
) -> Train:
    """Return a function that trains a tiny ModernBERT for a few steps, with sections of the recipe changed."""

    def run(changes: dict[str, Any]) -> Path:
        values = copy.deepcopy(tiny_recipe)
        values["encoder"]["name"] = str(tiny_modernbert)
        values["training"] |= {"epochs": 1, "steps_per_epoch": 3, "batch_size": 4}
        values["tasks"] = {"sst": {"pooling": "mean"}, "quora": {"pooling": "cls"}}
        for key, value in changes.items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
        return palbert.train(write_recipe(values), out=tmp_path / "run", force=True).path

    return run


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_modernbert_trains_and_answers_with_every_method(changes: dict[str, Any], train: Train) -> None:
    predictions = palbert.load(train(changes)).predict("sst", TEXTS)
    assert all(each.probabilities and sum(each.probabilities.values()) == pytest.approx(1) for each in predictions)


def test_recomputed_layers_train_to_the_same_answers(train: Train) -> None:
    plain, again = ({"encoder": {"recompute": recompute, "dropout": 0.1}} for recompute in (False, True))
    assert palbert.load(train(plain)).predict("sst", TEXTS) == palbert.load(train(again)).predict("sst", TEXTS)


@pytest.mark.skipif(not has_int8(), reason="needs a CPU with VNNI or AMX")
def test_int8_answers_are_near_those_of_fp32(train: Train) -> None:
    run = train({})
    exact, rounded = (palbert.load(run, precision=each).predict("sst", TEXTS) for each in ("fp32", "int8"))
    for one, other in zip(exact, rounded, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=0.02)


def test_modernbert_can_be_pretrained_further(train: Train, tiny_modernbert: Path) -> None:
    run = train({"pretraining": {"epochs": 1, "steps_per_epoch": 3, "batch_size": 4}})
    before, after = load_encoder(tiny_modernbert), load_encoder(run / "pretrained")
    assert before.config == after.config
    assert not torch.equal(before.final_norm.weight, after.final_norm.weight)  # type: ignore[arg-type]


def test_the_pooling_pooler_is_refused_for_modernbert(train: Train) -> None:
    with pytest.raises(RecipeError, match="this modernbert has none"):
        train({"tasks": {"sst": {"pooling": "pooler"}}})
