"""Recomputed layers: the same training to the bit, with fewer tensors kept between the passes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.model.recompute import keep_activations
from palbert.recipe.load import make_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.verbs import train as verb
from palbert.verbs.pretrain import PretrainingJob

METHODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mixout": {"encoder": {"mixout": 0.4}},
    "heads alone": {"encoder": {"frozen": True}},
    "pal": {"adapters": {"name": "pal", "size": 12}, "training": {"sampler": "mixed"}},
    "lora": {"adapters": {"name": "lora", "dropout": 0.2}, "training": {"trains": ["adapters", "heads"]}},
    "houlsby": {"adapters": "houlsby"},
    "smart": {"objectives": ["smart", "proximal"]},
    "rdrop": {"objectives": ["rdrop"]},
    "simcse": {"objectives": ["simcse"]},
    "simcse with a dropout of its own": {"objectives": [{"name": "simcse", "dropout": 0.3}]},
    "pcgrad": {"training": {"sampler": "mixed", "gradients": "pcgrad"}},
    "pcgrad with pal": {"adapters": "pal", "training": {"sampler": "mixed", "gradients": "pcgrad"}},
    "pcgrad that recomputes": {
        "training": {"sampler": "mixed", "gradients": {"name": "pcgrad", "memory": "recompute"}},
    },
    "accumulation": {"training": {"accumulation": 2}},
}
Start = Callable[..., Any]


@pytest.fixture
def start(tiny_recipe: dict[str, Any], tmp_path: Path) -> Start:
    """Return a function that builds a run of the tiny recipe, with sections changed."""

    def build(changes: dict[str, Any], *, recompute: bool) -> Any:
        values = copy.deepcopy(tiny_recipe)
        values["encoder"] |= {"recompute": recompute}
        for key, value in changes.items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
        return verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()

    return build


def train(run: Any, *, steps: int = 3) -> tuple[list[dict[str, float]], list[Tensor]]:
    """Take some steps; return their losses and the weights after them."""
    trainer = run.trainer
    trainer.model.train()
    draws, losses = dict(trainer.position.draws), []
    for sets in trainer.sampler.epoch(1)[:steps]:
        losses.append({name: float(loss) for name, loss in trainer.step(trainer.feed(sets, draws)).items()})
        trainer.feed.count(sets, draws)
    return losses, [value.detach() for value in trainer.model.parameters()]


@pytest.mark.parametrize("changes", METHODS.values(), ids=METHODS)
def test_recomputing_gives_the_same_losses_and_weights_to_the_bit(start: Start, changes: dict[str, Any]) -> None:
    kept, weights = train(start(changes, recompute=False))
    again, same = train(start(changes, recompute=True))
    assert kept == again
    assert all(torch.equal(one, other) for one, other in zip(weights, same, strict=True))


def saved_bytes(run: Any) -> int:
    """Return the bytes of all tensors that a pass keeps for the backward pass, weights left out."""
    trainer, found = run.trainer, {}
    trainer.model.train()
    weights = {value.untyped_storage().data_ptr() for value in trainer.model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    [batch] = trainer.feed(("quora",), trainer.position.draws)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        losses = trainer.objective(trainer.model, batch)
    assert losses
    return sum(found.values())


def test_recomputing_keeps_a_small_share_of_the_tensors(start: Start) -> None:
    assert saved_bytes(start({}, recompute=True)) < 0.3 * saved_bytes(start({}, recompute=False))


def test_an_evaluation_does_not_recompute_layers(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start({}, recompute=True)
    monkeypatch.setattr("palbert.model.recompute.checkpoint", None)  # a call would fail
    assert run.trainer.evaluate(run.model, epoch=0, step=0).tasks


def test_further_pretraining_recomputes_too(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    found = []
    for recompute in (False, True):
        tiny_recipe["encoder"]["recompute"] = recompute
        run = PretrainingJob(make_recipe(tiny_recipe), RunFolder(tmp_path / "run")).prepare()
        assert (run.model.encoder.run_layer is keep_activations) != recompute
        found.append(train(run))
    (kept, weights), (again, same) = found
    assert kept == again
    assert all(torch.equal(one, other) for one, other in zip(weights, same, strict=True))
