"""CAGrad: better than the mean for the worst-off task, within a ball around it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from palbert.errors import PalbertError
from palbert.gradients.cagrad import CAGrad

pytest.importorskip("torchjd")

ROWS = torch.tensor([[1.0, 0.0, 0.2], [-0.5, 1.0, 0.1], [0.3, -0.6, 1.0]])


def update(c: float) -> Tensor:
    return CAGrad(c=c)(ROWS @ ROWS.t()) @ ROWS


def test_radius_0_gives_the_mean() -> None:
    torch.testing.assert_close(update(0.0), ROWS.mean(0))


@pytest.mark.parametrize("c", [0.2, 0.4, 0.9])
def test_the_update_stays_in_the_ball_and_improves_the_worst_off_task(c: float) -> None:
    mean, found = ROWS.mean(0), update(c)
    assert (found - mean).norm() <= c * mean.norm() * (1 + 1e-3)
    assert (ROWS @ found).min() > (ROWS @ mean).min()


def test_a_negative_radius_is_refused() -> None:
    with pytest.raises(PalbertError, match="c: expected a number from 0"):
        CAGrad(c=-1.0)
