"""Machines: device and precision of a recipe, and models prepared for inference."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from palbert.build import Machine, build_encoder, build_inference, build_model, prepare_for_inference
from palbert.data.tokenizer import TextTokenizer
from palbert.model.multitask import MultiTaskModel
from palbert.model.packed import can_pack
from palbert.model.pretrained import resolve_encoder
from palbert.recipe.load import make_recipe

CPU = Machine(torch.device("cpu"), "fp32")


@pytest.fixture
def model(tiny_recipe: dict[str, Any]) -> MultiTaskModel:
    recipe = make_recipe(tiny_recipe)
    torch.manual_seed(0)
    return build_model(recipe.tasks, build_encoder(recipe, resolve_encoder(recipe.encoder.name))).eval()


def test_a_recipe_chooses_device_and_precision(tiny_recipe: dict[str, Any]) -> None:
    assert Machine.for_recipe(make_recipe(tiny_recipe)) == CPU
    assert Machine.of("cpu", "auto") == CPU


def test_a_machine_sets_the_precision_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    monkeypatch.setattr("palbert.build.machine.set_products", chosen.append)
    Machine.of("cpu", "fp32")
    assert chosen == ["fp32"]


def test_half_precision_is_autocast_and_fp32_is_not() -> None:
    for precision, expected in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with Machine(torch.device("cpu"), precision).arithmetic():  # type: ignore[arg-type]
            assert torch.is_autocast_enabled("cpu") == (precision == "bf16")
            if precision == "bf16":
                assert torch.get_autocast_dtype("cpu") == expected


@pytest.mark.skipif(not can_pack(), reason="needs oneDNN")
def test_a_model_prepared_for_inference_answers_the_same(model: MultiTaskModel, tokenizer: TextTokenizer) -> None:
    prepared = prepare_for_inference(copy.deepcopy(model), CPU)
    kinds = [{type(part) for part in each.encoder.modules()} for each in (model, prepared)]
    assert kinds[0] != kinds[1]
    inference = [build_inference(each, tokenizer=tokenizer, machine=CPU) for each in (model, prepared)]
    assert all(each.device == CPU.device for each in inference)
    assert not prepared.training


def test_on_other_machines_the_model_is_not_changed(model: MultiTaskModel) -> None:
    before = [type(part) for part in model.modules()]
    assert prepare_for_inference(model, Machine(torch.device("cuda"), "bf16")) is model
    assert [type(part) for part in model.modules()] == before
