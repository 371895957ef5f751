"""Factors: inner products and sums of gradients without the gradients themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palbert.model import factors
from palbert.model.factors import Factor, Factors, are_cheaper, product, table_gradient


class Spans:
    """Tokens of two tasks: the first 4 of one, the other 3 of the other."""

    count = 7
    spans = (("a", slice(0, 4)), ("b", slice(4, 7)))

    def are_even(self) -> bool:
        return False

    def of_tasks(self, like: Tensor) -> Tensor:
        chosen = like.new_zeros(2, 7)
        chosen[0, :4], chosen[1, 4:] = 1, 1
        return chosen


SPANS: Any = Spans()


def gradients_of(kept: list[tuple[Tensor, Factor]]) -> Tensor:
    """Return each task's gradient of all weights, (tasks, numbers)."""
    rows = []
    for _, tokens in SPANS.spans:
        parts = []
        for weight, factor in kept:
            left, right = factor.left[tokens], factor.right[tokens]
            one = table_gradient(left, right, len(weight)) if factor.is_lookup else left.t() @ right
            parts.append(one.flatten())
        rows.append(torch.cat(parts))
    return torch.stack(rows)


@pytest.fixture
def kept() -> list[tuple[nn.Parameter, Factor]]:
    """Make the factors of two matrices of one shape, one of another, and an embedding table."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (5, 3), (2, 6)]
    found = [
        (
            nn.Parameter(torch.zeros(shape)),
            Factor(SPANS, *(torch.randn(7, size, generator=generator) for size in shape)),
        )
        for shape in shapes
    ]
    rows = torch.tensor([0, 1, 1, 3, 1, 0, 2])
    return [*found, (nn.Parameter(torch.zeros(4, 3)), Factor(SPANS, torch.randn(7, 3, generator=generator), rows))]


def collected(kept: list[tuple[nn.Parameter, Factor]]) -> Factors:
    collection = Factors()
    for weight, factor in kept:
        assert collection.keep(weight, factor)
    return collection


def test_inner_products_equal_those_of_the_gradients(kept: list[tuple[nn.Parameter, Factor]]) -> None:
    matrix = torch.ones(2, 2)
    collected(kept).compare(matrix)
    rows = gradients_of(list(kept))
    torch.testing.assert_close(matrix - 1, rows @ rows.t(), rtol=1e-4, atol=1e-4)


def test_the_weighted_sum_equals_that_of_the_gradients(kept: list[tuple[nn.Parameter, Factor]]) -> None:
    collection = collected(kept)
    collection.compare(torch.zeros(2, 2))
    weights = torch.tensor([0.5, -2.0])
    collection.combine(weights)
    found = torch.cat([weight.grad.flatten() for weight, _ in kept if weight.grad is not None])
    torch.testing.assert_close(found, weights @ gradients_of(list(kept)), rtol=1e-4, atol=1e-4)


def test_parts_of_one_gradient_add_up(kept: list[tuple[nn.Parameter, Factor]]) -> None:
    (weight, first), (_, second), *_ = kept
    collection = Factors()
    assert collection.keep(weight, first) and collection.keep(weight, second)
    collection.compare(torch.zeros(2, 2))
    collection.combine(torch.ones(2))
    torch.testing.assert_close(weight.grad, first.left.t() @ first.right + second.left.t() @ second.right)


def test_too_many_tokens_are_refused_and_kept_factors_can_be_taken_back(
    kept: list[tuple[nn.Parameter, Factor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "MOST_TOKENS", 13)
    (weight, first), (_, second), *_ = kept
    collection = Factors()
    assert not collection
    assert collection.keep(weight, first) and collection
    assert not collection.keep(weight, second)
    assert collection.pop(weight) == [first]
    assert not collection and collection.pop(weight) == []


def test_clearing_forgets_everything(kept: list[tuple[nn.Parameter, Factor]]) -> None:
    collection = collected(kept)
    collection.clear()
    matrix = torch.zeros(2, 2)
    collection.compare(matrix)
    collection.combine(torch.ones(2))
    assert not matrix.any() and all(weight.grad is None for weight, _ in kept)


def test_a_product_may_be_written_to_given_memory() -> None:
    left, right, out = torch.randn(3, 4), torch.randn(4, 2), torch.empty(3, 2)
    assert product(left, right, out=out) is out
    torch.testing.assert_close(out, left @ right)
    torch.testing.assert_close(product(left[None], right[None])[0], out)


@pytest.mark.parametrize(("tokens", "worth"), [(10, True), (10_000, False)])
@pytest.mark.parametrize("lookup", [False, True])
def test_factors_are_cheaper_for_few_tokens_and_large_matrices_only(tokens: int, worth: bool, lookup: bool) -> None:
    large = torch.empty(300, 300)
    assert are_cheaper(large, tokens=tokens, tasks=3, lookup=lookup) is worth
    assert not are_cheaper(torch.empty(30, 30), tokens=tokens, tasks=3, lookup=lookup)
    assert not are_cheaper(torch.empty(90_000), tokens=tokens, tasks=3, lookup=lookup)
