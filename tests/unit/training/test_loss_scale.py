"""Loss scaling: the update of unscaled losses, and none where a gradient overflows."""

from __future__ import annotations

import pytest
import torch

from palbert.training import loss_scale
from palbert.training.loss_scale import START, DynamicScale, LossScale, NoScale
from palbert.training.optimizer import clip_gradients, make_optimizer


def step(scale: LossScale, layer: torch.nn.Linear, optimizer: torch.optim.Optimizer, *, times: float = 1.0) -> None:
    """Take one step of a layer on one row."""
    scale(times * layer(torch.ones(1, 4)).sum()).backward()
    clip_gradients(optimizer, 0.5, scale)
    optimizer.step()
    optimizer.zero_grad()


def made() -> tuple[torch.nn.Linear, torch.optim.AdamW]:
    """Make a layer and its optimizer."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    return layer, make_optimizer([("encoder", layer)], learning_rates={"encoder": 0.1})


def test_a_scaled_loss_gives_the_update_of_the_loss_itself() -> None:
    (plain, plain_optimizer), (scaled, scaled_optimizer) = made(), made()
    scale = DynamicScale()
    for times in (1.0, 0.01, 3.0):
        step(NoScale(), plain, plain_optimizer, times=times)
        step(scale, scaled, scaled_optimizer, times=times)
    torch.testing.assert_close(plain.weight, scaled.weight)
    assert scale.scale == START


def test_an_unfused_optimizer_clips_in_the_same_way() -> None:
    (fused, fused_optimizer), (plain, _) = made(), made()
    plain_optimizer = torch.optim.AdamW(plain.parameters(), lr=0.1, weight_decay=0.01, fused=False)
    fused_optimizer.param_groups[-1]["weight_decay"] = 0.01
    for times in (1.0, 0.01, 3.0):
        step(NoScale(), fused, fused_optimizer, times=times)
        step(NoScale(), plain, plain_optimizer, times=times)
    torch.testing.assert_close(fused.weight, plain.weight)
    torch.testing.assert_close(fused.bias, plain.bias)


def test_a_step_with_an_overflow_is_skipped_and_halves_the_scale() -> None:
    (layer, optimizer), scale = made(), DynamicScale()
    step(scale, layer, optimizer)
    before = layer.weight.detach().clone()
    moments = [state["exp_avg"].clone() for state in optimizer.state.values()]
    step(scale, layer, optimizer, times=float("inf"))
    assert torch.equal(layer.weight, before)
    for former, state in zip(moments, optimizer.state.values(), strict=True):
        assert torch.equal(state["exp_avg"], former)
        assert state["step"] == 1
    assert scale.scale == START / 2
    step(scale, layer, optimizer)
    assert not torch.equal(layer.weight, before)


def test_the_scale_grows_after_enough_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scale, "INTERVAL", 3)
    (layer, optimizer), scale = made(), DynamicScale()
    seen = []
    for _ in range(7):
        step(scale, layer, optimizer)
        seen.append(float(scale.scale) / START)
    assert seen == [1, 1, 2, 2, 2, 4, 4]


def test_the_state_of_the_scale_fits_into_a_checkpoint() -> None:
    scale = DynamicScale()
    assert set(scale.state_dict()) == {"scale", "streak"}
    assert not NoScale().state_dict()
