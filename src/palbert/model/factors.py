"""Factors: gradients of large weights, kept as the two matrices whose product they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from palbert.model.split import TaskTokens

LARGE = 2**16
"""Numbers of a matrix, at least, for its factors to be kept; the gradients of smaller ones cost little."""
MOST_TOKENS = 2048
"""Tokens of a step, at most: their products are matrices of tokens by tokens."""
MULTIPLICATIONS_PER_NUMBER = {"cpu": 25, "cuda": 200}
"""Multiplications that take as long as writing and reading one number, measured. Other devices keep no factors."""


@dataclass(frozen=True)
class Factor:
    """A gradient of a weight, leftᵀ · right: a sum over the tokens of one pass.

    For an embedding table, `right` holds the rows that were looked up, (tokens,), and stands for a one-hot matrix.
    """

    task_tokens: TaskTokens
    left: Tensor
    """(tokens, n)."""
    right: Tensor
    """(tokens, m), or rows of the table, (tokens,)."""

    @property
    def is_lookup(self) -> bool:
        """Whether the weight is an embedding table."""
        return self.right.ndim == 1

    @property
    def kind(self) -> Any:
        """Equal for factors that can be computed at once."""
        return id(self.task_tokens), self.left.shape, self.left.dtype, self.right.shape, self.right.dtype


class Factors:
    """Keeps the factors of a step's gradients until the weights of the tasks are known.

    With gᵢ = LᵢᵀRᵢ, Lᵢ and Rᵢ the tokens of task i, ⟨gᵢ, gⱼ⟩ is the sum of all numbers in (Lᵢ Lⱼᵀ) ∘ (Rᵢ Rⱼᵀ), and
    Σ wᵢ gᵢ is (w ∘ L)ᵀ R. Where a step has fewer tokens than a weight has rows or columns, this is less work than
    writing one gradient per task, reading it for the inner products and again for the sum, and needs little memory.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Tensor, list[Factor]]] = {}
        self._groups: list[_Group] = []

    def __bool__(self) -> bool:
        return bool(self._kept or self._groups)

    def keep(self, weight: Tensor, factor: Factor) -> bool:
        """Keep a part of a weight's gradient; return False, and keep nothing, if the step then has too many tokens."""
        _, kept = self._kept.get(id(weight), (weight, []))
        if factor.task_tokens.count + sum(other.task_tokens.count for other in kept) > MOST_TOKENS:
            return False
        self._kept[id(weight)] = weight, [*kept, factor]
        return True

    def pop(self, weight: Tensor) -> list[Factor]:
        """Remove and return what is kept of a weight's gradient."""
        _, kept = self._kept.pop(id(weight), (weight, []))
        return kept

    def compare(self, matrix: Tensor) -> None:
        """Add the inner products of the tasks' gradients to a matrix, (tasks, tasks)."""
        self._groups = list(_grouped(self._kept.values()))
        self._kept = {}
        totals: dict[Any, Tensor] = {}
        chosen: dict[Any, Tensor] = {}
        for group in self._groups:
            same, known = group.token_products(), totals.get(group.passes)
            totals[group.passes] = same if known is None else known.add_(same)
            chosen[group.passes] = group.of_tasks
        for passes, total in totals.items():
            matrix += chosen[passes] @ total @ chosen[passes].t()

    def combine(self, weights: Tensor) -> None:
        """Leave the weighted sum of the tasks' gradients in `.grad`; one weight per task, (tasks,)."""
        for group in self._groups:
            group.combine(weights)

    def clear(self) -> None:
        """Forget the gradients of the step."""
        self._kept, self._groups = {}, []


class _Group:
    """Weights of one shape used in the same passes, all computed at once."""

    def __init__(self, weights: Sequence[Tensor], factors: Sequence[Sequence[Factor]]) -> None:
        self.weights = weights
        first = factors[0]
        self.passes = tuple(id(factor.task_tokens) for factor in first)
        self.left = torch.stack([_joined([factor.left for factor in own]) for own in factors])  # (weights, tokens, n)
        self.right = torch.stack([_joined([factor.right for factor in own]) for own in factors])  # (weights, tokens, m)
        like = self.left.new_empty(0, dtype=torch.float32)
        self.of_tasks = _joined([factor.task_tokens.of_tasks(like) for factor in first], dim=1)  # (tasks, tokens)
        self.is_lookup = first[0].is_lookup

    def token_products(self) -> Tensor:
        """Return the inner products of single tokens' gradients, summed over the weights, (tokens, tokens)."""
        products = product(self.left, self.left.transpose(1, 2))
        if self.is_lookup:
            products *= self.right[:, :, None] == self.right[:, None, :]
        else:
            products *= product(self.right, self.right.transpose(1, 2))
        return products.sum(0)

    def combine(self, weights: Tensor) -> None:
        """Leave the weighted sum in the `.grad` of each weight."""
        counts = weights @ self.of_tasks  # (tokens,)
        left = self.left * counts.to(self.left.dtype)[:, None]
        if self.is_lookup:
            for weight, one, places in zip(self.weights, left, self.right, strict=True):
                weight.grad = table_gradient(one, places, len(weight)).to(weight.dtype)
            return
        for weight, gradient in zip(self.weights, product(left.transpose(1, 2), self.right), strict=True):
            weight.grad = gradient


def table_gradient(gradient: Tensor, places: Tensor, rows: int) -> Tensor:
    """Return the gradient of an embedding table with many rows, (tokens, n) to (rows, n)."""
    found: Tensor = torch.ops.aten.embedding_dense_backward(gradient, places, rows, -1, False)
    return found


def product(left: Tensor, right: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Multiply matrices, or a batch of them, in float32 or half precision; the product is float32."""
    multiply, into = (torch.mm, torch.ops.aten.mm) if left.ndim == 2 else (torch.bmm, torch.ops.aten.bmm)
    if left.dtype == torch.float32:
        return multiply(left, right, out=out)
    if out is None:
        return multiply(left, right, out_dtype=torch.float32)
    return into.dtype_out(left, right, torch.float32, out=out)  # type: ignore[no-any-return]


def are_cheaper(weight: Tensor, *, tokens: float, tasks: int, lookup: bool) -> bool:
    """Whether keeping factors is less work than one gradient per task, in steps of so many tokens and tasks."""
    if weight.ndim != 2 or weight.numel() < LARGE:
        return False
    rows, columns = weight.shape
    multiplied = tokens**2 * (columns if lookup else rows + columns)
    return multiplied <= MULTIPLICATIONS_PER_NUMBER.get(weight.device.type, 0) * tasks * rows * columns


def _grouped(kept: Iterable[tuple[Tensor, list[Factor]]]) -> Iterator[_Group]:
    """Group weights that can be computed at once, in the order they came, which is the same in all processes."""
    groups: dict[Any, list[tuple[Tensor, list[Factor]]]] = {}
    for weight, factors in kept:
        groups.setdefault((weight.shape, *(factor.kind for factor in factors)), []).append((weight, factors))
    for entries in groups.values():
        yield _Group([weight for weight, _ in entries], [factors for _, factors in entries])


def _joined(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)
