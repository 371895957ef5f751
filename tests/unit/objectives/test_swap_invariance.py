"""Swap invariance: the divergence of rows and their copies, and nothing for equal outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from palbert.errors import PalbertError
from palbert.objectives import Pass
from palbert.objectives.objectives import Objectives
from palbert.objectives.swap_invariance import SwapInvariance

MakeScene = Callable[..., Any]


def goals_of(stage: Any) -> dict[str, Any]:
    return {name: replace(goal, has_swaps=True) for name, goal in stage.goals.items()}


def even(stage: Any) -> Any:
    batch = stage.batch()
    assert all(part.examples % 2 == 0 for part in batch.parts.values())
    return batch


def test_the_value_is_the_divergence_of_each_row_and_the_next_one(scene: MakeScene) -> None:
    stage = scene()
    batch = even(stage)
    forward_pass = stage.forward_pass(batch)
    values = SwapInvariance(goals_of(stage), weight=0.7).values(stage.model, batch, forward_pass)
    assert set(values) == set(batch.parts)
    for name, goal in stage.goals.items():
        outputs = forward_pass.outputs[name]
        apart = goal.target.divergence(outputs[::2], outputs[1::2])
        scale = 0.7 if goal.target.name == "number" else 0.35  # half of KL in both directions
        assert apart > 0 and values[name].item() == pytest.approx((scale * apart).item(), rel=1e-5)


def test_equal_outputs_cost_nothing_and_gradients_reach_row_and_copy(scene: MakeScene) -> None:
    stage = scene()
    batch = even(stage)
    forward_pass = stage.forward_pass(batch)
    term = SwapInvariance(goals_of(stage))
    twice = {name: outputs[::2].repeat_interleave(2, dim=0) for name, outputs in forward_pass.outputs.items()}
    assert all(value == 0 for value in term.values(stage.model, batch, Pass(forward_pass.vectors, twice)).values())
    apart = {name: outputs.detach().requires_grad_() for name, outputs in forward_pass.outputs.items()}
    total = torch.stack(list(term.values(stage.model, batch, Pass(forward_pass.vectors, apart)).values())).sum()
    total.backward()  # type: ignore[no-untyped-call]
    assert all((outputs.grad.abs().sum(dim=1) > 0).all() for outputs in apart.values() if outputs.grad is not None)
    assert all(outputs.grad is not None for outputs in apart.values())


def test_the_term_is_added_to_the_losses_of_sets_with_swaps_alone(scene: MakeScene) -> None:
    stage = scene()
    batch = even(stage)
    chosen = next(iter(stage.goals))
    goals = {**stage.goals, chosen: replace(stage.goals[chosen], has_swaps=True)}
    plain = Objectives(stage.supervised)(stage.model, batch)
    added = Objectives(stage.supervised, [SwapInvariance(goals)])(stage.model, batch)
    assert added[chosen] > plain[chosen]
    assert all(torch.equal(added[name], plain[name]) for name in plain if name != chosen)


def test_without_swaps_the_term_is_refused(scene: MakeScene) -> None:
    with pytest.raises(PalbertError, match="none of its tasks has a set of swaps"):
        SwapInvariance(scene().goals)
