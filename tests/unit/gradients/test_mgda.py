"""MGDA: the shortest convex combination of the gradients."""

from __future__ import annotations

import pytest
import torch

from palbert.gradients.mgda import MGDA

pytest.importorskip("torchjd")


def test_the_update_is_the_shortest_convex_combination() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        rows = torch.randn(3, 5, generator=generator) + 0.5
        weights = MGDA()(rows @ rows.t())
        assert (weights >= 0).all() and weights.sum() == pytest.approx(1, abs=1e-5)
        shortest = weights @ rows
        others = torch.rand(200, 3, generator=generator)
        others /= others.sum(1, keepdim=True)
        # The solver is iterative, and stops near the minimum.
        assert (others @ rows).norm(dim=1).min() >= 0.95 * shortest.norm()


def test_mgda_favours_the_shorter_of_two_orthogonal_gradients() -> None:
    # min_w ‖w (3, 0) + (1 − w) (0, 1)‖²: w = 1 / (1 + 9).
    rows = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(MGDA()(rows @ rows.t()), torch.tensor([0.1, 0.9]), rtol=1e-2, atol=1e-2)
