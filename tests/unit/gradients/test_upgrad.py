"""UPGrad: an update that conflicts with no task, however many there are."""

from __future__ import annotations

import pytest
import torch

from palbert.gradients.upgrad import UPGrad

pytest.importorskip("torchjd")


def test_the_update_of_many_tasks_conflicts_with_none() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        rows = torch.randn(4, 6, generator=generator)
        gram = rows @ rows.t()
        found = UPGrad()(gram / gram.diagonal().mean()) @ rows
        assert (rows @ found >= -1e-2).all()


def test_gradients_that_agree_are_averaged() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.5, 2.0]])
    torch.testing.assert_close(UPGrad()(rows @ rows.t()) @ rows, rows.mean(0), rtol=1e-3, atol=1e-3)
