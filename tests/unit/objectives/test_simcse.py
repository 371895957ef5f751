"""SimCSE: compared with a plain InfoNCE, and the laws of views, rows and layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palbert.batch import repeat_of
from palbert.build import check_names
from palbert.errors import PalbertError, RecipeError
from palbert.objectives import Pass
from palbert.objectives.objectives import Objectives
from palbert.objectives.simcse import SimCSE, info_nce
from palbert.recipe.load import make_recipe

MakeScene = Callable[..., Any]


def plain_info_nce(first: Tensor, second: Tensor, temperature: float) -> float:
    """Compute the formula literally, with loops."""

    def similarity(a: Tensor, b: Tensor) -> float:
        return math.exp(float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)) / temperature)

    first, second = first.detach(), second.detach()
    rows = range(len(first))
    losses = [
        -math.log(similarity(first[i], second[i]) / sum(similarity(first[i], second[j]) for j in rows)) for i in rows
    ]
    return sum(losses) / len(losses)


def test_info_nce_equals_the_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(7, 5, generator=generator), torch.randn(7, 5, generator=generator)
    for temperature in (0.05, 0.5):
        expected = plain_info_nce(first.double(), second.double(), temperature)
        assert info_nce(first, second, temperature=temperature).item() == pytest.approx(expected, rel=1e-4)


def test_info_nce_is_lower_for_aligned_views() -> None:
    generator = torch.Generator().manual_seed(0)
    first, noise = torch.randn(8, 16, generator=generator), torch.randn(8, 16, generator=generator)
    losses = [info_nce(first, first + size * noise, temperature=0.05).item() for size in (0, 0.3, 1, 100)]
    assert losses == sorted(losses)
    assert losses[0] < 0.1 < losses[-1]
    assert info_nce(first, first.roll(1, 0), temperature=0.05) > losses[-1]


@pytest.mark.parametrize("projection", [True, False])
def test_the_term_is_the_info_nce_of_two_passes(scene: MakeScene, projection: bool) -> None:
    stage = scene(dropout=0.1)
    batch = stage.batch()
    term = SimCSE(stage.goals, weight=0.3, temperature=0.1, projection=projection)
    term.prepare(stage.model)
    torch.manual_seed(5)
    values = term(stage.model, batch, stage.forward_pass(batch))
    torch.manual_seed(5)
    vectors = stage.model.vectors(batch.with_repeats(batch.parts))
    for task, part in batch.parts.items():
        sides = zip(vectors[task].chunk(part.width), vectors[repeat_of(task)].chunk(part.width), strict=True)
        expected = [plain_info_nce(one.double(), other.double(), 0.1) for one, other in sides]
        assert values[task].item() == pytest.approx(0.3 * sum(expected) / part.width, rel=1e-3)


def test_a_batch_of_one_row_gives_0(scene: MakeScene) -> None:
    stage = scene(dropout=0.1)
    batch = stage.batch([2])
    term = SimCSE(stage.goals)
    term.prepare(stage.model)
    values = term(stage.model, batch, stage.forward_pass(batch))
    assert len(values) == len(stage.tasks) and all(value == 0 for value in values.values())
    sum(values.values()).backward()
    assert stage.gradient().norm() == 0


def test_gradients_flow_through_both_views_and_into_the_layer(scene: MakeScene) -> None:
    stage = scene("number-joint", dropout=0.1)
    batch = stage.batch()
    term = SimCSE(stage.goals)
    term.prepare(stage.model)
    forward_pass = stage.forward_pass(batch)
    vectors = forward_pass.vectors["number-joint"]
    vectors.retain_grad()
    term(stage.model, batch, forward_pass)["number-joint"].backward()
    assert vectors.grad is not None and vectors.grad.norm() > 0
    [weight, bias] = list(term.parameters())
    assert weight.grad.norm() > 0 and torch.equal(weight, torch.eye(32)) and not bias.any()
    assert all(parameter.grad is None for parameter in stage.model.heads.parameters())


def test_only_joint_pairs_have_a_layer(scene: MakeScene) -> None:
    stage = scene(dropout=0.1)
    with_layers, without = SimCSE(stage.goals), SimCSE(stage.goals, projection=False)
    for term in (with_layers, without):
        term.prepare(stage.model)
    assert set(with_layers.layer_of) == {"binary-joint", "number-joint"}
    assert list(without.parameters()) == []


def test_one_step_down_its_gradient_brings_the_views_together(scene: MakeScene) -> None:
    stage = scene("classes", dropout=0.1)
    batch = stage.batch()
    term = SimCSE(stage.goals)

    def value() -> Tensor:
        torch.manual_seed(0)
        return term(stage.model, batch, stage.forward_pass(batch))["classes"]  # type: ignore[no-any-return]

    before = value()
    before.backward()
    with torch.no_grad():
        for parameter in stage.model.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
    assert value() < before


def test_initialising_the_layers_draws_no_random_number(scene: MakeScene) -> None:
    stage = scene(dropout=0.1)
    state = torch.get_rng_state()
    SimCSE(stage.goals).prepare(stage.model)
    assert torch.equal(torch.get_rng_state(), state)


def test_similarities_are_computed_in_full_precision_under_autocast(scene: MakeScene) -> None:
    stage = scene(dropout=0.1)
    term = SimCSE(stage.goals)
    term.prepare(stage.model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = Objectives(stage.supervised, [term])(stage.model, stage.batch())
        first, second = torch.randn(6, 32), torch.randn(6, 32)
        alone = scene("classes", dropout=0.1)
        forward_pass = Pass({"classes": first}, {}, second=Pass({"classes": second}, {}))
        value = SimCSE(alone.goals)(alone.model, alone.batch(), forward_pass)["classes"]
    assert value.item() == pytest.approx(plain_info_nce(first.double(), second.double(), 0.05), rel=1e-4)
    torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
    assert stage.gradient().isfinite().all()


def test_an_encoder_without_dropout_or_frozen_is_refused(scene: MakeScene) -> None:
    still = scene()
    with pytest.raises(RecipeError, match="the encoder has none"):
        SimCSE(still.goals).prepare(still.model)
    SimCSE(still.goals, weight=0).prepare(still.model)
    frozen = scene(dropout=0.1)
    frozen.model.encoder.requires_grad_(False)
    with pytest.raises(RecipeError, match="which is frozen"):
        SimCSE(frozen.goals).prepare(frozen.model)
    with pytest.raises(PalbertError, match="temperature"):
        SimCSE({}, temperature=0)


def test_a_frozen_encoder_needs_adapters_for_the_tasks_of_the_term(scene: MakeScene) -> None:
    stage = scene(dropout=0.1)
    stage.model.encoder.requires_grad_(False)
    stage.model.adapters["one"], stage.model.adapter_of["classes"] = nn.Linear(2, 2), "one"
    SimCSE(dict.fromkeys(("classes", "classes+more"), stage.goals["classes"])).prepare(stage.model)
    with pytest.raises(RecipeError, match=r"which is frozen; binary-joint, .* has no trained adapter"):
        SimCSE(stage.goals).prepare(stage.model)


def test_all_sets_of_a_joint_pair_task_share_a_layer(scene: MakeScene) -> None:
    stage = scene("binary-joint", dropout=0.1)
    term = SimCSE(dict.fromkeys(("binary-joint", "binary-joint+more"), stage.goals["binary-joint"]))
    term.prepare(stage.model)
    assert len(term.layers) == 1 and set(term.layer_of.values()) == {0}


def test_with_its_own_dropout_the_views_are_two_passes_at_that_rate(scene: MakeScene) -> None:
    stage = scene("number-siamese", dropout=0.1)
    batch = stage.batch()
    forward_pass = stage.forward_pass(batch)
    torch.manual_seed(5)
    value = SimCSE(stage.goals, dropout=0.4)(stage.model, batch, forward_pass)["number-siamese"]
    stronger = scene("number-siamese", dropout=0.4)
    torch.manual_seed(5)
    first, second = (stronger.model.vectors(batch)["number-siamese"].chunk(2) for _ in range(2))
    expected = [info_nce(one, other, temperature=0.05) for one, other in zip(first, second, strict=True)]
    torch.testing.assert_close(value, torch.stack(expected).mean())
    torch.manual_seed(5)
    other = SimCSE(stage.goals, dropout=0.1)(stage.model, batch, forward_pass)["number-siamese"]
    assert not torch.isclose(value, other)


def test_its_own_dropout_makes_views_differ_in_an_encoder_without_dropout(scene: MakeScene) -> None:
    still = scene()
    batch = still.batch()
    term = SimCSE(still.goals, dropout=0.2)
    term.prepare(still.model)
    forward_pass = still.forward_pass(batch)
    first, second = term.views(still.model, batch, forward_pass)
    assert all(not torch.equal(first[task], second[task]) for task in still.tasks)
    again = still.forward_pass(batch)
    for task in still.tasks:  # the supervised passes before and after have none
        assert torch.equal(again.outputs[task], forward_pass.outputs[task])
    losses = Objectives(still.supervised, [term])(still.model, batch)
    torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
    assert still.gradient().isfinite().all()


@pytest.mark.parametrize("dropout", [0, 0.0, 1, 1.5, -0.1, True, "some"])
def test_its_own_dropout_is_between_0_and_1(dropout: Any) -> None:
    with pytest.raises(PalbertError, match="dropout: expected a number above 0 and below 1"):
        SimCSE({}, dropout=dropout)


def test_its_own_dropout_allows_an_encoder_without_dropout(tiny_recipe: dict[str, Any]) -> None:
    tiny_recipe["encoder"] |= {"dropout": 0.0, "attention_dropout": 0.0}
    check_names(make_recipe({**tiny_recipe, "objectives": [{"name": "simcse", "dropout": 0.2}]}))
    with pytest.raises(RecipeError, match="or give the objective a dropout of its own"):
        make_recipe({**tiny_recipe, "objectives": ["simcse"]})
