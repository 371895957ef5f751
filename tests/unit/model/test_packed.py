"""Packed layers: equal to plain ones, with every activation and every part of a model."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from palbert.build import Machine, build_encoder, build_inference, build_model, prepare_for_inference
from palbert.data.dataset import load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.model.activations import ACTIVATIONS
from palbert.model.encoder import Encoder
from palbert.model.packed import FUSED, PackedLinear, can_pack
from palbert.recipe.load import make_recipe
from palbert.registry import ADAPTERS
from palbert.tasks.sets import files_of

pytestmark = pytest.mark.skipif(not can_pack(), reason="needs an x86 CPU and torch with oneDNN")

CPU = Machine(torch.device("cpu"), "fp32")


@pytest.mark.parametrize("tokens", [0, 1, 7, 300])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_a_packed_layer_and_its_activation_equal_those_of_torch(
    activation: str | None, bias: bool, tokens: int
) -> None:
    torch.manual_seed(0)
    layer, values = nn.Linear(24, 40, bias=bias), 3 * torch.randn(tokens, 24)
    packed = PackedLinear(layer, FUSED[activation]) if activation else PackedLinear(layer)
    with torch.inference_mode():
        expected = layer(values) if activation is None else ACTIVATIONS[activation](layer(values))
        torch.testing.assert_close(packed(values), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tokens", [0, 1, 7, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_a_residual_is_added_to_the_outputs(bias: bool, tokens: int) -> None:
    torch.manual_seed(0)
    layer, values, residual = nn.Linear(24, 40, bias=bias), torch.randn(tokens, 24), torch.randn(tokens, 40)
    kept = residual.clone()
    with torch.inference_mode():
        found = PackedLinear(layer).add_to(residual, values)
        torch.testing.assert_close(found, residual + layer(values), rtol=1e-5, atol=1e-5)
    assert torch.equal(residual, kept)


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new"])
@pytest.mark.parametrize("adapter", [None, *ADAPTERS])
def test_a_model_prepared_for_inference_answers_as_before(
    adapter: str | None, activation: str, tiny_recipe: dict[str, Any], tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    recipe = make_recipe({**tiny_recipe, **({"adapters": {"name": adapter}} if adapter else {})})
    torch.manual_seed(0)
    trained = build_encoder(recipe, tiny_encoder)
    encoder = Encoder(replace(trained.config, activation=activation))
    encoder.load_state_dict(trained.state_dict())
    model = build_model(recipe.tasks, encoder, adapters=recipe.adapters)
    for parameter in model.adapters.parameters():
        nn.init.normal_(parameter, std=0.1)  # adapters start at zero
    answers = []
    for form in (model, prepare_for_inference(copy.deepcopy(model), CPU)):
        inference = build_inference(form, tokenizer=tokenizer, machine=CPU)
        answers.append(
            [
                inference.outputs(task, load_dataset(files_of(task, "dev"), tokenizer).tokens)
                for task in recipe.tasks.values()
            ]
        )
    assert any(isinstance(module, PackedLinear) for module in form.modules())
    for before, after in zip(*answers, strict=True):
        torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


def test_only_models_in_fp32_on_the_cpu_are_packed(tiny_recipe: dict[str, Any], tiny_encoder: Path) -> None:
    recipe = make_recipe(tiny_recipe)
    model = build_model(recipe.tasks, build_encoder(recipe, tiny_encoder))
    prepare_for_inference(model, Machine(torch.device("cpu"), "bf16"))
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
