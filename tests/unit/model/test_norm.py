"""Norms: torch's numbers with and without a bias, and gradients that can be split by task."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from palbert.model.norm import NORMS


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", NORMS)
def test_gradients_can_be_split_by_task(name: str, bias: bool, assert_splits: Any) -> None:
    norm, values = NORMS[name](6, eps=1e-3, bias=bias), torch.randn(8, 6)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    assert_splits(norm, lambda tokens: norm(values[tokens]))


def test_a_layer_norm_equals_that_of_torch() -> None:
    norm, values = NORMS["layer"](6, eps=1e-3, bias=False), torch.randn(8, 6)
    nn.init.normal_(norm.weight)
    torch.testing.assert_close(norm(values), F.layer_norm(values, (6,), norm.weight, None, 1e-3))
