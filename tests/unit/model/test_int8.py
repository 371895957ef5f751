"""Int8: products of bytes, and answers close to those of fp32 with every part of a model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from palbert.build import Machine, build_encoder, build_inference, build_model
from palbert.data.dataset import load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.model.int8 import Int8Linear, quantise
from palbert.recipe.load import make_recipe
from palbert.registry import ADAPTERS, HEADS, POOLINGS
from palbert.runtime.precision import has_int8
from palbert.tasks.sets import files_of

pytestmark = pytest.mark.skipif(not has_int8(), reason="needs a CPU with VNNI or AMX")

CPU = Machine(torch.device("cpu"), "fp32")


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def layer(request: pytest.FixtureRequest) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(24, 40, bias=request.param)


def test_a_layer_multiplies_rounded_weights_with_rounded_inputs(layer: nn.Linear) -> None:
    sizes = torch.logspace(-3, 3, 7)[:, None]
    values = sizes * torch.randn(7, 24)
    exact, weight = values.double(), layer.weight.detach().double()
    low, high = exact.amin(1, keepdim=True), exact.amax(1, keepdim=True)
    inputs = low + ((exact - low) * 255 / (high - low)).round() * (high - low) / 255
    largest = weight.abs().amax(1, keepdim=True)
    weights = (weight * 127 / largest).round() * largest / 127
    expected = inputs @ weights.T + (0 if layer.bias is None else layer.bias.detach())
    with torch.inference_mode():
        found = Int8Linear(layer)(values)
    torch.testing.assert_close(found / sizes, (expected / sizes).float(), rtol=1e-5, atol=1e-5)


def test_the_output_of_a_token_does_not_depend_on_its_batch(layer: nn.Linear) -> None:
    int8 = Int8Linear(layer)
    token = torch.randn(1, 24)
    with torch.inference_mode():
        among_giants = int8(torch.cat([1000 * torch.randn(5, 24), token, torch.zeros(2, 24)]))[5:6]
        assert torch.equal(among_giants, int8(token))


def test_a_token_of_equal_values_is_exact_except_for_the_weights(layer: nn.Linear) -> None:
    rounded = Int8Linear(layer)
    with torch.inference_mode():
        found = rounded(torch.full((2, 24), 3.7))
    bias = torch.zeros(40) if layer.bias is None else layer.bias.detach()
    torch.testing.assert_close(found, (3.7 * rounded.sums + bias).expand(2, -1))


def test_zeros_give_the_bias_and_nan_stays_nan(layer: nn.Linear) -> None:
    values = torch.zeros(3, 24)
    values[2, 5] = torch.nan
    with torch.inference_mode():
        found = Int8Linear(layer)(values)
    bias = torch.zeros(40) if layer.bias is None else layer.bias.detach()
    assert torch.equal(found[:2], bias.expand(2, -1))
    assert found[2].isnan().all()


def test_a_residual_is_added_to_the_outputs(layer: nn.Linear) -> None:
    int8, values, residual = Int8Linear(layer), torch.randn(5, 24), torch.randn(5, 40)
    with torch.inference_mode():
        torch.testing.assert_close(int8.add_to(residual, values), residual + int8(values))


def test_inputs_of_any_width_are_rounded_alike() -> None:
    torch.manual_seed(0)
    wide = nn.Linear(24, 8)
    narrow = nn.Linear(23, 8)
    with torch.no_grad():
        wide.weight[:, 23] = 0
        narrow.weight.copy_(wide.weight[:, :23])
        narrow.bias.copy_(wide.bias)
    values = torch.randn(6, 24)
    values[:, 23] = values[:, 0]  # changes no range
    with torch.inference_mode():
        torch.testing.assert_close(Int8Linear(narrow)(values[:, :23].contiguous()), Int8Linear(wide)(values))


def test_an_output_whose_weights_are_all_zero_stays_zero() -> None:
    layer = nn.Linear(8, 3)
    nn.init.zeros_(layer.weight[1])
    with torch.inference_mode():
        assert torch.equal(Int8Linear(layer)(torch.randn(4, 8))[:, 1], layer.bias[1].expand(4))


MODELS: dict[str, dict[str, Any]] = {
    **{f"pooling {name}": {"pooling": name} for name in POOLINGS},
    **{f"head {name}": {"single": name} for name in ("linear", "mlp")},
    **{f"head {name}": {"siamese": name} for name in ("compare", "concat", "concat-difference", "cosine")},
    **{f"adapter {name}": {"adapters": {"name": name}} for name in ADAPTERS},
    "relation": {"relation": {"name": "mlp", "tasks": ["quora", "sts"]}},
}


def test_these_tests_cover_every_head() -> None:
    assert {f"head {name}" for name in HEADS} <= set(MODELS)


def build(folder: Path, *, single: str = "linear", siamese: str = "concat", pooling: str = "cls", **more: Any) -> Any:
    """Return a recipe of a single text, a joint and a siamese pair, and its model, filled as if trained."""
    tasks = {
        "sst": {"head": single, "pooling": pooling},
        "quora": {"head": single, "pooling": pooling},
        "sts": {"head": siamese, "pooling": pooling, "pair_input": "siamese"},
    }
    recipe = make_recipe({"data": "samples", "encoder": str(folder), "tasks": tasks, **more})
    torch.manual_seed(0)
    encoder = build_encoder(recipe, folder)
    model = build_model(recipe.tasks, encoder, adapters=recipe.adapters, relation=recipe.relation)
    for parameter in model.adapters.parameters():  # adapters start at zero
        nn.init.normal_(parameter, std=0.1)
    return recipe, model.eval()


@pytest.mark.parametrize("parts", MODELS.values(), ids=MODELS)
def test_answers_are_close_to_those_of_fp32(
    parts: dict[str, Any], tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    recipe, model = build(tiny_encoder, **parts)
    exact = build_inference(model, tokenizer=tokenizer, machine=CPU)
    rounded = build_inference(copy.deepcopy(model), tokenizer=tokenizer, machine=CPU)
    quantise(rounded.model.encoder)
    for name, task in recipe.tasks.items():
        tokens = load_dataset(files_of(task, "dev"), tokenizer).tokens
        expected, found = exact.outputs(task, tokens), rounded.outputs(task, tokens)
        largest = float((found - expected).abs().max())
        assert 0 < largest < 0.02, name


def test_only_the_linear_layers_of_the_encoders_layers_change(tiny_encoder: Path) -> None:
    _, model = build(tiny_encoder, adapters={"name": "pal"})
    before = {name: type(module) for name, module in model.named_modules()}
    quantise(model.encoder)
    changed = {name for name, module in model.named_modules() if type(module) is not before[name]}
    layers = {
        name for name, kind in before.items() if issubclass(kind, nn.Linear) and name.startswith("encoder.layers.")
    }
    assert changed == layers and len(layers) == 2 * 4
