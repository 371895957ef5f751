"""Inner products and weighted sums of long rows: torch's operations and the kernels compared with float64.

With a CUDA device the kernels are compiled; without one Triton interprets them on the CPU.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.gradients import shared

DEVICE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
SHAPES = [(1, 7), (2, 5000), (3, 40_001), (4, 16_384), (5, 33_000), (16, 1000)]


@pytest.fixture(params=["composed", "kernels"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an implementation: torch's operations, or the kernels."""
    if request.param == "kernels":
        request.getfixturevalue("interpreter")
        return importlib.import_module("palbert.model.kernels.rows")
    monkeypatch.setattr(shared, "has_triton", lambda: False)
    return shared


def block_of(rows: int, columns: int) -> Tensor:
    """Return rows that are slices of longer ones, like the gradients of a few parameters."""
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows + 1, columns + 13, generator=generator).to(DEVICE)[:rows, 4 : columns + 4]


@pytest.mark.parametrize("shape", SHAPES)
def test_inner_products_match_float64(way: Any, shape: tuple[int, int]) -> None:
    block = block_of(*shape)
    found = way.inner_products(block)
    torch.testing.assert_close(found.double(), block.double() @ block.double().t(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_row_becomes_the_weighted_sum_and_nothing_else_changes(way: Any, shape: tuple[int, int]) -> None:
    block = block_of(*shape)
    weights = torch.linspace(-1, 2, shape[0], device=DEVICE)
    around = block._base
    assert around is not None
    before, expected = around.clone(), (weights.double() @ block.double()).float()
    way.add_up(block, weights)
    torch.testing.assert_close(block[0], expected, rtol=1e-5, atol=1e-5)
    block[0] = before[0, 4 : shape[1] + 4]
    assert torch.equal(around, before)


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # inf × 0 in rows that only fill a kernel's block
def test_nan_and_inf_affect_only_the_products_of_their_own_row(way: Any) -> None:
    block = block_of(3, 5000).clone()
    block[1, 4321] = float("inf")
    finite = way.inner_products(block).isfinite()
    assert finite.tolist() == [[True, False, True], [False, False, False], [True, False, True]]
