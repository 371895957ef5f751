"""The proximal term: 0 at the start, then the distance to the moving average of the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from palbert.errors import PalbertError
from palbert.objectives.proximal import Proximal

MakeScene = Callable[..., Any]


def move(model: torch.nn.Module, size: float) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=size)


def test_the_proximal_term_is_0_before_the_weights_change_and_grows_with_the_change(scene: MakeScene) -> None:
    stage = scene()
    batch = stage.batch()
    term = Proximal(stage.goals, weight=2.0)
    term.prepare(stage.model)
    found = []
    for size in (0.0, 1e-3, 1e-2):
        move(stage.model, size)
        found.append(term(stage.model, batch, stage.forward_pass(batch)))
    assert all(value == 0 for value in found[0].values())
    assert all(0 < found[1][task] < found[2][task] for task in stage.tasks)


def test_the_average_follows_the_weights(scene: MakeScene) -> None:
    stage = scene()
    term = Proximal(stage.goals, beta=0.9)
    term.prepare(stage.model)
    expected = {name: value.clone() for name, value in stage.model.named_parameters()}
    for _ in range(3):
        move(stage.model, 0.1)
        term.after_step(stage.model)
        expected = {name: 0.9 * expected[name] + 0.1 * value for name, value in stage.model.named_parameters()}
    torch.testing.assert_close(dict(term.average.named_parameters()), expected)


def test_the_average_is_not_trained_and_has_no_dropout(scene: MakeScene) -> None:
    stage = scene(dropout=0.3)
    batch = stage.batch()
    term = Proximal(stage.goals)
    term.prepare(stage.model)
    assert term.average is not None and not term.average.training and stage.model.training
    values = term(stage.model, batch, stage.forward_pass(batch))
    sum(values.values()).backward()
    assert stage.gradient().norm() > 0
    assert all(not p.requires_grad and p.grad is None for p in term.parameters())
    torch.testing.assert_close(term.average(batch), scene().model(batch))


def test_a_weight_of_0_keeps_no_average(scene: MakeScene) -> None:
    stage = scene()
    term = Proximal(stage.goals, weight=0)
    term.prepare(stage.model)
    term.after_step(stage.model)
    assert term.state_dict() == {}


@pytest.mark.parametrize("beta", [-0.1, 1.0])
def test_an_impossible_beta_is_refused(beta: float) -> None:
    with pytest.raises(PalbertError, match=r"^beta: expected a number from 0 and below 1"):
        Proximal({}, beta=beta)
