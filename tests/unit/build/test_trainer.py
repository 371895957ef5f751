"""The trainer of a recipe: what is trained and at which rates, and how steps are executed and scaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from palbert.build import Machine
from palbert.build.trainer import make_execution, make_scale
from palbert.objectives.objective import Objective
from palbert.recipe.load import make_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.training.averaging import EMA, NoAverage
from palbert.training.execution import Eager
from palbert.training.loss_scale import DynamicScale, NoScale
from palbert.training.trainer import Trainer
from palbert.verbs.train import TrainingJob

Values = dict[str, Any]


def trainer_of(values: Values, folder: Path) -> Trainer:
    return TrainingJob(make_recipe(values), RunFolder(folder)).prepare().trainer


def rates_of(trainer: Trainer) -> set[float]:
    return {float(group["lr"]) for group in trainer.optimizer.param_groups if group["params"]}


def test_each_role_has_its_own_learning_rate(tiny_recipe: Values, tmp_path: Path) -> None:
    tiny_recipe["adapters"] = "pal"
    tiny_recipe["optimizer"] = {"learning_rate": 1e-5, "head_learning_rate": 1e-3, "adapter_learning_rate": 1e-4}
    assert rates_of(trainer_of(tiny_recipe, tmp_path)) == {1e-5, 1e-4, 1e-3}


def test_roles_without_a_rate_take_the_encoders(tiny_recipe: Values, tmp_path: Path) -> None:
    tiny_recipe["adapters"] = "pal"
    tiny_recipe["optimizer"] = {"learning_rate": 1e-5}
    assert rates_of(trainer_of(tiny_recipe, tmp_path)) == {1e-5}


@pytest.mark.parametrize(
    ("change", "trained"),
    [
        ({"encoder": {"frozen": True}}, {"heads"}),
        ({"training": {"trains": ["encoder"]}}, {"encoder"}),
        ({}, {"encoder", "heads"}),
    ],
    ids=["frozen", "encoder only", "everything"],
)
def test_only_the_parts_that_the_recipe_trains_learn(
    tiny_recipe: Values, tmp_path: Path, change: Values, trained: set[str]
) -> None:
    for section, own in change.items():
        tiny_recipe[section] |= own
    model = trainer_of(tiny_recipe, tmp_path).model
    learns = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert learns == trained


def test_the_trainer_has_the_parts_that_the_recipe_names(tiny_recipe: Values, tmp_path: Path) -> None:
    plain = trainer_of(tiny_recipe, tmp_path)
    tiny_recipe["training"] |= {"average": "ema", "clip": 0.5, "accumulation": 2}
    other = trainer_of(tiny_recipe, tmp_path)
    assert isinstance(plain.average, NoAverage) and isinstance(other.average, EMA)
    assert (plain.clip, other.clip) == (1.0, 0.5)
    assert (plain.feed.accumulation, other.feed.accumulation) == (1, 2)


def test_steps_are_computed_one_by_one_without_cuda(tiny_recipe: Values) -> None:
    assert type(make_execution(make_recipe(tiny_recipe), torch.device("cpu"))) is Eager


def test_only_fp16_scales_its_losses_and_keeps_the_scale_in_the_objective() -> None:
    objective = Objective()
    assert type(make_scale(objective, Machine(torch.device("cpu"), "fp32"))) is NoScale
    assert list(objective.state_dict()) == []
    assert isinstance(make_scale(objective, Machine(torch.device("cpu"), "fp16")), DynamicScale)
    assert any(name.startswith("scale.") for name in objective.state_dict())
