"""The optimizer: which parameter gets which rate and decay."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from palbert.build import build_model
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
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


def test_rates_go_by_role(model: MultiTaskModel) -> None:
    for name, (rate, _) in settings(make_optimizer(model.roles(), learning_rates=RATES), model).items():
        assert rate == RATES[name.split(".")[0]], name


def test_every_parameter_is_there_once(model: MultiTaskModel) -> None:
    optimizer = make_optimizer(model.roles(), learning_rates=RATES)
    members = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(members) == sorted(id(parameter) for parameter in model.parameters())


def test_frozen_parameters_are_absent(model: MultiTaskModel) -> None:
    model.encoder.requires_grad_(False)
    found = settings(make_optimizer(model.roles(), learning_rates=RATES), model)
    assert set(found) == {name for name, _ in model.named_parameters() if name.startswith("heads.")}


def test_setting_rates_scales_every_peak(model: MultiTaskModel) -> None:
    optimizer = make_optimizer(model.roles(), learning_rates=RATES)
    for factor in (0.5, 0.1, 1.0):
        set_rates(optimizer, factor)
        assert rates(optimizer) == pytest.approx({role: rate * factor for role, rate in RATES.items()})


def test_averages_and_epsilon_are_passed_on(model: MultiTaskModel) -> None:
    optimizer = make_optimizer(model.roles(), learning_rates=RATES, betas=(0.8, 0.9), epsilon=1e-6)
    assert {(group["betas"], group["eps"]) for group in optimizer.param_groups} == {((0.8, 0.9), 1e-6)}
