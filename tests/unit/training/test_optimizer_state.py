"""The optimizer's state: one that does not fit is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from palbert.errors import CheckpointError
from palbert.training.optimizer_state import check_optimizer, numbers_in, optimizer_tensors


@pytest.fixture
def optimizer() -> torch.optim.Optimizer:
    """Take a step with the first of two layers."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model[0](torch.ones(2, 3)).square().mean().backward()
    optimizer.step()
    return optimizer


def test_only_parameters_with_a_gradient_have_a_state(optimizer: torch.optim.Optimizer, tmp_path: Path) -> None:
    state = optimizer_tensors(optimizer)
    assert numbers_in(state) == {"0", "1"}
    check_optimizer(tmp_path, optimizer, state, hint="")


@pytest.mark.parametrize(
    "change", ["shape", "name", "number", "part", "kind", "half", "double", "half of a step", "nan", "negative"]
)
def test_an_optimizer_state_that_does_not_fit_is_refused(
    optimizer: torch.optim.Optimizer, tmp_path: Path, change: str
) -> None:
    state = optimizer_tensors(optimizer)
    average = state.pop("0.exp_avg")
    changes = {
        "shape": {"0.exp_avg": average[:1]},
        "name": {"0.exp_avg": average, "0.other": average},
        "number": {"0.exp_avg": average, "99.exp_avg": average},
        "part": {},
        "kind": {"0.exp_avg": average.int()},
        "half": {"0.exp_avg": average.half()},
        "double": {"0.exp_avg": average.double()},
        "half of a step": {"0.exp_avg": average, "0.step": state["0.step"].half()},
        "nan": {"0.exp_avg": average * torch.nan},
        "negative": {"0.exp_avg": average, "0.exp_avg_sq": -state["0.exp_avg_sq"] - 1},
    }
    with pytest.raises(CheckpointError, match=r"optimizer.safetensors: does not fit the model: (0|99)\..*again"):
        check_optimizer(tmp_path, optimizer, {**state, **changes[change]}, hint="Train again.")
