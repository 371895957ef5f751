"""FairGrad: weights that solve the equation of α-fairness."""

from __future__ import annotations

import pytest
import torch

from palbert.errors import PalbertError
from palbert.gradients.fairgrad import FairGrad

pytest.importorskip("torchjd")


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_weights_solve_the_equation(alpha: float) -> None:
    rows = torch.tensor([[1.0, 0.5, 0.2], [-0.3, 1.0, 0.1], [0.3, -0.2, 1.0]])
    gram = rows @ rows.t()
    weights = FairGrad(alpha=alpha)(gram)
    assert (weights > 0).all()
    torch.testing.assert_close(gram @ weights, weights ** (-1 / alpha), rtol=1e-2, atol=1e-2)


def test_a_negative_alpha_is_refused() -> None:
    with pytest.raises(PalbertError, match="alpha: expected a number from 0"):
        FairGrad(alpha=-0.5)
