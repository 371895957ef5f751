"""Rotary positions: products of queries and keys depend only on their distance, and values do not change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from palbert.model.positions.rotary import Rotation

WIDTH, HEADS = 8, 2


def rotated(values: Tensor, positions: list[int], *, base: float = 100.0) -> Tensor:
    return Rotation.of(torch.tensor(positions), base=base, width=WIDTH)(values)


@pytest.fixture
def values() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(1, 3, HEADS, WIDTH).expand(4, -1, -1, -1)


def test_products_of_queries_and_keys_depend_only_on_the_distance(values: Tensor) -> None:
    query, key, _ = rotated(values, [3, 5, 60, 62]).unbind(1)
    products = torch.einsum("ihw,jhw->hij", query, key)
    torch.testing.assert_close(products[:, 0, 1], products[:, 2, 3])
    torch.testing.assert_close(products[:, 1, 0], products[:, 3, 2])
    torch.testing.assert_close(products[:, 0, 0], products[:, 2, 2])
    assert not torch.allclose(products[:, 0, 1], products[:, 0, 2])


def test_rotation_keeps_values_lengths_and_the_first_position(values: Tensor) -> None:
    found = rotated(values, [0, 1, 2, 3])
    assert torch.equal(found[:, 2], values[:, 2])
    assert torch.equal(found[0], values[0])
    torch.testing.assert_close(found.norm(dim=-1), values.norm(dim=-1))


def test_each_pair_of_numbers_is_rotated_by_its_own_angle(values: Tensor) -> None:
    position, base = 5, 100.0
    found = rotated(values[:1], [position], base=base)[0, 0, 0].double()
    numbers = values[0, 0, 0].double()
    for number in range(WIDTH // 2):
        angle = torch.tensor(position * base ** (-2 * number / WIDTH), dtype=torch.float64)
        first, second = numbers[number], numbers[number + WIDTH // 2]
        torch.testing.assert_close(found[number], first * angle.cos() - second * angle.sin(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            found[number + WIDTH // 2], second * angle.cos() + first * angle.sin(), rtol=1e-5, atol=1e-6
        )


def test_rotation_keeps_half_precision(values: Tensor) -> None:
    assert rotated(values.half(), [0, 1, 2, 3]).dtype == torch.float16
