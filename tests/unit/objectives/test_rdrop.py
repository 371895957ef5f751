"""R-Drop: 0 without dropout; with dropout, the mean of both losses and their distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.batch import repeat_of
from palbert.errors import RecipeError
from palbert.objectives.distillation import Distillation
from palbert.objectives.objectives import Objectives
from palbert.objectives.rdrop import RDrop

MakeScene = Callable[..., Any]


def test_without_dropout_rdrop_is_0_and_does_not_change_the_gradient(scene: MakeScene) -> None:
    plain, dropped = scene(), scene()
    batch = plain.batch()
    torch.stack(list(Objectives(plain.supervised)(plain.model, batch).values())).sum().backward()  # type: ignore[no-untyped-call]
    term = RDrop(dropped.goals, weight=3.0)
    assert all(value == 0 for value in term(dropped.model, batch, dropped.forward_pass(batch)).values())
    losses = Objectives(dropped.supervised, [term])(dropped.model, batch)
    torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(dropped.gradient(), plain.gradient())


def test_loss_is_the_mean_of_both_passes_and_their_weighted_distance(scene: MakeScene) -> None:
    stage = scene(dropout=0.2)
    batch = stage.batch()
    torch.manual_seed(3)
    losses = Objectives(stage.supervised, [RDrop(stage.goals, weight=0.7)])(stage.model, batch)
    torch.manual_seed(3)  # the same masks again
    outputs = stage.model(batch.with_repeats(batch.parts))
    for task, goal in stage.goals.items():
        labels, first, second = batch.parts[task].labels, outputs[task], outputs[repeat_of(task)]
        mean = (goal.loss(first, labels) + goal.loss(second, labels)) / 2
        apart = goal.target.divergence(first, second)
        scale = 0.7 if goal.target.name == "number" else 0.35  # half of KL in both directions
        assert apart > 0
        assert losses[task].item() == pytest.approx((mean + scale * apart).item(), rel=1e-5)


@pytest.mark.parametrize("terms", [1, 2], ids=["one rdrop", "two rdrops"])
@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_the_distillation_loss_is_the_mean_of_both_passes(scene: MakeScene, weight: float, terms: int) -> None:
    stage = scene(dropout=0.2)
    plain = stage.batch()
    outputs = stage.model(plain)
    parts = {
        task: replace(part, teacher_outputs=torch.randn(len(outputs[task]), 2, outputs[task].shape[1]))
        for task, part in plain.parts.items()
    }
    batch = replace(plain, parts=parts)
    goals = {task: replace(goal, has_teachers=True) for task, goal in stage.goals.items()}
    rdrops = [RDrop(goals, weight=0.7 / terms) for _ in range(terms)]
    torch.manual_seed(3)
    losses = Objectives(stage.supervised, [Distillation(goals, weight=weight), *rdrops])(stage.model, batch)
    torch.manual_seed(3)
    outputs = stage.model(batch.with_repeats(batch.parts))
    for task, goal in goals.items():
        part, both = batch.parts[task], (outputs[task], outputs[repeat_of(task)])
        hard = sum(goal.loss(each, part.labels) for each in both) / 2
        soft = sum(goal.target.soft_loss(each, part.teacher_outputs, temperature=1.0) for each in both) / 2
        scale = 0.7 if goal.target.name == "number" else 0.35
        expected = (1 - weight) * hard + weight * soft + scale * goal.target.divergence(*both)
        assert losses[task].item() == pytest.approx(expected.item(), rel=1e-5)


def test_gradients_flow_through_both_passes(scene: MakeScene) -> None:
    stage = scene("classes", dropout=0.2)
    batch = stage.batch()
    forward_pass = stage.forward_pass(batch)
    outputs = forward_pass.outputs["classes"]
    outputs.retain_grad()
    RDrop(stage.goals)(stage.model, batch, forward_pass)["classes"].backward()
    assert outputs.grad is not None and outputs.grad.abs().sum() > 0
    assert stage.gradient().norm() > 0


@pytest.mark.parametrize("pieces", [2, 3, 6])
def test_without_dropout_pieces_give_the_same_gradient_as_one_batch(scene: MakeScene, pieces: int) -> None:
    def gradient(count: int) -> Tensor:
        stage = scene()
        objective = Objectives(stage.supervised, [RDrop(stage.goals)])
        for rows in torch.arange(6).chunk(count):
            losses = objective(stage.model, stage.batch(rows.tolist()))
            torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        return stage.gradient()  # type: ignore[no-any-return]

    torch.testing.assert_close(gradient(pieces), gradient(1), rtol=1e-4, atol=1e-5)


def test_a_model_without_dropout_is_refused(scene: MakeScene) -> None:
    still = scene()
    with pytest.raises(RecipeError, match=r"there is none for binary-joint, .*classes"):
        RDrop(still.goals).prepare(still.model)
    RDrop(still.goals, weight=0).prepare(still.model)
    moving = scene(dropout=0.1)
    RDrop(moving.goals).prepare(moving.model)
    RDrop(moving.goals).prepare(still.model)  # dropout in front of the heads is enough
