"""Mixout: a plain layer at the pretrained weights and in evaluation; in training, the weight on average."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import palbert
from palbert.build import build_encoder
from palbert.errors import RecipeError
from palbert.model.mixout import MixoutLinear
from palbert.recipe.load import make_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.training.trainer import Hook, Trainer
from palbert.verbs import train as verb

Change = Callable[..., dict[str, Any]]


def moved(probability: float = 0.3) -> MixoutLinear:
    """Make a layer whose weight has moved away from the pretrained one by 1 to 2 everywhere."""
    torch.manual_seed(0)
    layer = MixoutLinear(nn.Linear(24, 16), probability=probability)
    layer.weight.data += 1 + torch.rand(16, 24)
    return layer


def mixed(layer: MixoutLinear) -> Tensor:
    """Return the weight that a pass computes with: the outputs for unit vectors, without the bias."""
    output: Tensor = layer(torch.eye(24))
    return output.t() - layer.bias[:, None]


def replaced(layer: MixoutLinear, weight: Tensor) -> Tensor:
    """Return which entries of a mixed weight are the pretrained ones; the others differ by 1 or more."""
    return (weight - layer.pretrained).abs() < 0.5


@pytest.fixture
def change(tiny_recipe: dict[str, Any]) -> Change:
    """Return a function that gives the tiny recipe mixout, with settings of the encoder changed."""

    def make(**encoder: Any) -> dict[str, Any]:
        values = copy.deepcopy(tiny_recipe)
        values["encoder"] |= {"mixout": 0.4, **encoder}
        values["training"] |= {"steps_per_epoch": 3, "batch_size": 4}
        return values

    return make


def test_at_the_pretrained_weight_mixout_equals_the_plain_layer_to_the_bit() -> None:
    plain, vectors = nn.Linear(24, 16), torch.randn(5, 24)
    layer = MixoutLinear(plain, probability=0.9)
    assert layer.training
    assert torch.equal(layer(vectors), plain(vectors))


def test_in_evaluation_mixout_uses_the_weight_of_the_layer() -> None:
    layer, vectors = moved().eval(), torch.randn(5, 24)
    assert torch.equal(layer(vectors), F.linear(vectors, layer.weight, layer.bias))


def test_a_pass_mixes_both_weights_per_input_as_in_the_paper() -> None:
    layer, p = moved(), 0.3
    found, weight, pretrained = mixed(layer).detach(), layer.weight.detach(), layer.pretrained
    mask = replaced(layer, found).float()
    assert torch.equal(mask, mask[:1].expand_as(mask)) and 0 < float(mask.mean()) < 1
    expected = (mask * pretrained + (1 - mask) * weight - p * pretrained) / (1 - p)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)  # p is rounded to 1/65536 on the CPU


def test_the_mean_over_passes_is_the_weight_of_the_layer() -> None:
    layer = moved()
    with torch.no_grad():
        passes = torch.stack([mixed(layer) for _ in range(4000)])
    # The variance of an entry is p / (1 - p) times its squared distance from the pretrained value.
    deviation = (layer.weight - layer.pretrained).detach() * (0.3 / 0.7 / 4000) ** 0.5
    assert float(((passes.mean(0) - layer.weight.detach()) / deviation).abs().max()) < 5
    assert float(replaced(layer, passes).float().mean()) == pytest.approx(0.3, abs=0.01)


def test_the_gradient_reaches_the_entries_that_are_not_replaced_scaled_up() -> None:
    layer = moved()
    weight = mixed(layer)
    weight.sum().backward()  # type: ignore[no-untyped-call]
    kept = ~replaced(layer, weight.detach())
    torch.testing.assert_close(layer.weight.grad, kept / 0.7, rtol=1e-4, atol=0)
    assert layer.pretrained.grad is None


def test_mixout_replaces_exactly_the_linear_layers_of_an_encoder(change: Change, tiny_encoder: Path) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(make_recipe(change()), tiny_encoder)
    drawn = torch.rand(())
    torch.manual_seed(0)
    plain = build_encoder(make_recipe(change(mixout=0)), tiny_encoder)
    assert torch.equal(torch.rand(()), drawn)
    assert not any(isinstance(module, MixoutLinear) for module in plain.modules())
    linear = [name for name, module in plain.named_modules() if isinstance(module, nn.Linear)]
    assert linear == [name for name, module in encoder.named_modules() if isinstance(module, MixoutLinear)]
    assert len(linear) == 4 * 2 + 1  # and the pooler
    assert [name for name, _ in encoder.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert encoder.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize("bias", [True, False])
def test_mixout_holds_the_parameters_of_the_replaced_layer(bias: bool) -> None:
    plain = nn.Linear(3, 2, bias=bias).requires_grad_(False)
    layer = MixoutLinear(plain, probability=0.5)
    assert layer.weight is plain.weight and layer.bias is plain.bias
    assert layer(torch.ones(1, 3)).shape == (1, 2)
    layer.weight.add_(1)
    assert not torch.equal(layer.weight, layer.pretrained)


def test_a_copy_has_its_own_weight_and_the_same_pretrained_one() -> None:
    layer = moved()
    twin = copy.deepcopy(layer)
    twin.weight.data.zero_()
    assert float(layer.weight.detach().abs().max()) > 0
    assert torch.equal(twin.pretrained, layer.pretrained)
    assert twin.to(torch.float64).pretrained.dtype == torch.float64  # it moves with the weight


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"adapters": {"name": "lora", "rank": 2}},
        {"adapters": {"name": "pal", "size": 8, "heads": 2}},
        {"objectives": ["smart", "proximal", "rdrop"]},
        {"training": {"average": "ema", "balance": "uncertainty", "gradients": "pcgrad", "sampler": "mixed"}},
    ],
    ids=["plain", "lora", "pal", "terms", "others"],
)
def test_a_run_resumes_to_the_same_bits_and_predicts_with_plain_layers(
    change: Change, extra: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopAt4(Hook):
        def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
            trainer.stopping = trainer.position.step == 4

    def files(run: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (run / "checkpoints" / "last").glob("*.safetensors")}

    values = change()
    recipe = make_recipe({**values, **extra, "training": {**values["training"], **extra.get("training", {})}})
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)
    whole = verb.train(recipe, out=tmp_path / "whole").path
    original = Trainer.fit
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", lambda self: self.hooks.append(StopAt4()) or original(self))
        with pytest.raises(KeyboardInterrupt):
            verb.train(recipe, out=tmp_path / "cut")
    cut = verb.train(recipe, out=tmp_path / "cut", resume=True).path
    assert files(cut) == files(whole)
    model = palbert.load(cut, device="cpu").inference.model
    assert not any(isinstance(module, MixoutLinear) for module in model.modules())


def test_mixout_changes_a_run_from_the_second_step_on(change: Change, tmp_path: Path) -> None:
    still = {"dropout": 0.0, "attention_dropout": 0.0}

    def losses(mixout: float) -> list[float]:
        values = change(mixout=mixout, **still)
        values["tasks"] = {"sts": {"dropout": 0.0}}
        trainer = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare().trainer
        return [trainer.step(trainer.feed(("sts",), {"sts": 0}))["sts"].item() for _ in range(2)]

    (first, second), (plain_first, plain_second) = losses(0.4), losses(0.0)
    assert first == plain_first and second != plain_second


NEVER = "encoder.mixout: mixes in pretrained weights, but the encoder is not trained and has no others."


@pytest.mark.parametrize(
    ("encoder", "others", "says"),
    [
        ({"frozen": True}, {}, NEVER),
        ({}, {"training": {"trains": ["heads"]}}, NEVER),
        ({}, {"phases": [{"training": {"trains": ["heads"]}}]}, NEVER),
        ({"mixout": 1.0}, {}, "encoder.mixout: Input should be less than 1, found 1.0."),
        ({"mixout": -0.1}, {}, "encoder.mixout: Input should be greater than or equal to 0, found -0.1."),
    ],
)
def test_unsuitable_settings_are_refused(
    change: Change, encoder: dict[str, Any], others: dict[str, Any], says: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        make_recipe({**change(**encoder), **others})
    assert says in str(caught.value)


def test_one_phase_that_trains_the_encoder_is_enough(change: Change) -> None:
    recipe = make_recipe({**change(), "phases": [{"training": {"trains": ["heads"]}}, {}]})
    assert recipe.encoder.mixout > 0 and [stage.training.trains for stage in recipe.stages] == [("heads",), ()]
