"""The optimizer: which parameter gets which rate and decay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from palbert.build import build_model
from palbert.errors import RecipeError
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe
from palbert.tasks.catalog import CATALOG
from palbert.tasks.spec import Task
from palbert.training.optimizer import make_optimizer, rates, set_rates

RATES = {"encoder": 2e-5, "heads": 1e-3}


@pytest.fixture
def model(tiny_encoder: Path) -> MultiTaskModel:
    tasks = {name: Task.model_validate({"name": name, **CATALOG[name], "head": "mlp"}) for name in ("sst", "sts")}
    return build_model(tasks, load_encoder(tiny_encoder))


def settings(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, tuple[float, float]]:
    """Return rate and decay of every parameter by name."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {
        names[parameter]: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def test_biases_and_norms_do_not_decay_and_matrices_do(model: MultiTaskModel) -> None:
    found = settings(make_optimizer(model.roles(), learning_rates=RATES, weight_decay=0.03), model)
    assert any("norm" in name for name in found)
    for name, (_, decay) in found.items():
        assert decay == (0.0 if "norm" in name or name.endswith("bias") else 0.03), name


def test_learning_rates_depend_on_the_role(model: MultiTaskModel) -> None:
    for name, (rate, _) in settings(make_optimizer(model.roles(), learning_rates=RATES), model).items():
        assert rate == RATES[name.split(".")[0]], name


def test_every_parameter_is_in_exactly_one_group(model: MultiTaskModel) -> None:
    optimizer = make_optimizer(model.roles(), learning_rates=RATES)
    members = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(members) == sorted(id(parameter) for parameter in model.parameters())


def test_frozen_parameters_are_left_out(model: MultiTaskModel) -> None:
    model.encoder.requires_grad_(False)
    found = settings(make_optimizer(model.roles(), learning_rates=RATES), model)
    assert set(found) == {name for name, _ in model.named_parameters() if name.startswith("heads.")}


def test_setting_rates_scales_every_peak_rate(model: MultiTaskModel) -> None:
    optimizer = make_optimizer(model.roles(), learning_rates=RATES)
    for factor in (0.5, 0.1, 1.0):
        set_rates(optimizer, factor)
        assert rates(optimizer) == pytest.approx({role: rate * factor for role, rate in RATES.items()})


def test_betas_and_epsilon_are_passed_on(model: MultiTaskModel) -> None:
    optimizer = make_optimizer(model.roles(), learning_rates=RATES, betas=(0.8, 0.9), epsilon=1e-6)
    assert {(group["betas"], group["eps"]) for group in optimizer.param_groups} == {((0.8, 0.9), 1e-6)}


def decayed(model: MultiTaskModel, layer_decay: float) -> torch.optim.AdamW:
    return make_optimizer(
        model.roles(), learning_rates=RATES, parts=model.encoder_parts(), layer_decay=layer_decay, weight_decay=0.03
    )


@pytest.mark.parametrize("decay", [0.5, 0.95])
def test_each_layer_learns_slower_than_the_one_above(model: MultiTaskModel, decay: float) -> None:
    found = settings(decayed(model, decay), model)
    top = RATES["encoder"]
    # By hand for the two layers of this encoder; the pooler sits on top of them.
    powers = {"embeddings": 2, "layers.0": 1, "layers.1": 0, "pooler": 0}
    for part, power in powers.items():
        (rate,) = {rate for name, (rate, _) in found.items() if name.startswith(f"encoder.{part}.")}
        assert rate == pytest.approx(top * decay**power, rel=1e-12), part
    assert {rate for name, (rate, _) in found.items() if name.startswith("heads.")} == {RATES["heads"]}
    assert set(found) == {name for name, _ in model.named_parameters()}


def test_layer_decay_does_not_touch_weight_decay(model: MultiTaskModel) -> None:
    slower, plain = (settings(decayed(model, decay), model) for decay in (0.5, 1.0))
    assert {name: decay for name, (_, decay) in slower.items()} == {name: decay for name, (_, decay) in plain.items()}


def test_a_layer_decay_of_1_does_not_change_the_groups(model: MultiTaskModel) -> None:
    plain = make_optimizer(model.roles(), learning_rates=RATES, weight_decay=0.03).param_groups
    decayed_by_1 = decayed(model, 1.0).param_groups
    assert len(plain) == len(decayed_by_1) == 4
    for one, other in zip(plain, decayed_by_1, strict=True):
        assert [id(parameter) for parameter in one["params"]] == [id(parameter) for parameter in other["params"]]
        assert {key: value for key, value in one.items() if key != "params"} == {
            key: value for key, value in other.items() if key != "params"
        }


def test_the_rate_shown_for_the_encoder_is_that_of_its_top_layer(model: MultiTaskModel) -> None:
    optimizer = decayed(model, 0.5)
    for factor in (1.0, 0.25):
        set_rates(optimizer, factor)
        assert rates(optimizer) == pytest.approx({role: rate * factor for role, rate in RATES.items()})


def test_the_layer_decay_of_the_recipe_reaches_the_optimizer(start: Callable[..., Any]) -> None:
    trainer = start(optimizer={"learning_rate": 1e-3, "layer_decay": 0.5}).trainer
    peaks = {group["peak"] for group in trainer.optimizer.param_groups if group["role"] == "encoder"}
    assert peaks == {1e-3, 5e-4, 2.5e-4}


@pytest.mark.parametrize("decay", [0, 1.5])
def test_a_layer_decay_outside_0_to_1_is_refused(decay: float) -> None:
    with pytest.raises(RecipeError, match=r"optimizer\.layer_decay"):
        make_recipe({"data": "samples", "tasks": ["sst"], "optimizer": {"layer_decay": decay}})
