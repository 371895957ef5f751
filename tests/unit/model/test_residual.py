"""norm(residual + dropout(update)) where no kernel is used."""

from __future__ import annotations

import torch
from torch import nn

from palbert.model.dropout import NO_DROPOUT, Dropout, Seeds
from palbert.model.norm import LayerNorm
from palbert.model.residual import add_and_norm


def test_the_result_is_the_norm_of_the_sum() -> None:
    residual, update = torch.randn(2, 5, 6)
    for norm in (LayerNorm(6), LayerNorm(6, bias=False), nn.Identity()):
        assert torch.equal(add_and_norm(residual, update, norm, NO_DROPOUT, Seeds()), norm(residual + update))


def test_only_the_update_is_dropped() -> None:
    residual = torch.randn(50, 6)
    found = add_and_norm(residual, torch.ones(50, 6), nn.Identity(), Dropout(0.5), Seeds()) - residual
    torch.testing.assert_close(found.round().unique(), torch.tensor([0.0, 2.0]))
