"""Aligned-MTL: the mean of gradients that are made orthogonal and equally long."""

from __future__ import annotations

import pytest
import torch

from palbert.gradients.aligned_mtl import AlignedMTL

pytest.importorskip("torchjd")


@pytest.mark.parametrize(("scale_mode", "length"), [("min", 1.0), ("median", 2.0), ("rmse", (21 / 3) ** 0.5)])
def test_orthogonal_gradients_get_equal_norms(scale_mode: str, length: float) -> None:
    lengths = torch.tensor([1.0, 2.0, 4.0])
    rows = torch.diag(lengths)
    update = AlignedMTL(scale_mode=scale_mode)(rows @ rows.t()) @ rows  # type: ignore[arg-type]
    torch.testing.assert_close(update, torch.full((3,), length / 3), rtol=1e-3, atol=1e-3)


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="scale_mode: expected 'min', 'median' or 'rmse', found 'max'"):
        AlignedMTL(scale_mode="max")  # type: ignore[arg-type]
