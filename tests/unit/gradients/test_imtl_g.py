"""IMTL-G: equal projections onto all gradients."""

from __future__ import annotations

import pytest
import torch

from palbert.gradients.imtl_g import IMTLG

pytest.importorskip("torchjd")


def test_projections_onto_all_gradients_are_equal_and_weights_add_up_to_1() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        rows = torch.randn(3, 6, generator=generator) * torch.tensor([[1.0], [3.0], [0.5]])
        weights = IMTLG()(rows @ rows.t())
        projections = rows @ (weights @ rows) / rows.norm(dim=1)
        torch.testing.assert_close(projections, projections[:1].expand(3), rtol=1e-3, atol=1e-3)
        assert weights.sum() == pytest.approx(1, abs=1e-4)
