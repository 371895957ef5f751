"""PCGrad: conflicting components are projected out, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from palbert.gradients.pcgrad import PCGrad

pytest.importorskip("torchjd")


def update(rows: Tensor) -> Tensor:
    return PCGrad()(rows @ rows.t()) @ rows


@pytest.mark.parametrize(
    "rows",
    [[(1.0, 0.0), (0.0, 2.0)], [(1.0, 1.0), (2.0, 0.5)], [(1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (1.0, 1.0, 3.0)]],
)
def test_pcgrad_equals_the_sum_when_gradients_agree(rows: list[tuple[float, ...]]) -> None:
    torch.testing.assert_close(update(torch.tensor(rows)), torch.tensor(rows).sum(0))


def test_the_update_of_two_tasks_conflicts_with_neither() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        rows = torch.randn(2, 4, generator=generator)
        assert (rows @ update(rows) >= -1e-5).all()


def test_pcgrad_removes_the_conflicting_component() -> None:
    # arXiv:2001.06782, algorithm 1, by hand: (1, 0) − (−1)/2 (−1, 1) = (0.5, 0.5), and (−1, 1) + (1, 0) = (0, 1).
    torch.testing.assert_close(update(torch.tensor([[1.0, 0.0], [-1.0, 1.0]])), torch.tensor([0.5, 1.5]))


def test_pcgrad_draws_its_orders_from_the_generator_of_torch() -> None:
    rows = torch.randn(5, 6, generator=torch.Generator().manual_seed(5))

    def seeded(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return update(rows)

    assert torch.equal(seeded(1), seeded(1))
    assert any(not torch.equal(seeded(1), seeded(seed)) for seed in range(2, 8))
