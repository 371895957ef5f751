"""Tables: torch's rows and gradients, split by task where wanted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from palbert.model.lookup import Table, look_up, look_up_each

ROWS = torch.tensor([4, 0, 4, 1, 1, 1, 3, 0])


def filled(rows: int = 5, width: int = 3) -> Table:
    table = Table(rows, width)
    nn.init.normal_(table.weight)
    return table


def test_gradients_of_large_and_small_tables_can_be_split_by_task(assert_splits: Any) -> None:
    table = filled()
    assert_splits(table, lambda tokens: table(ROWS[tokens]))
    assert_splits(table, lambda tokens: look_up(table.weight, ROWS[tokens]))


def test_a_small_table_has_the_gradient_of_a_large_one() -> None:
    table, upstream = filled(), torch.randn(8, 3)
    found = [look_up(table.weight, ROWS), table(ROWS)]
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(*(torch.autograd.grad(each, table.weight, upstream) for each in found))


class FakeTaskTokens:
    """Record the gradients of a pass with a span of each of two tasks."""

    spans = (("a", slice(0, 3)), ("b", slice(3, 8)))
    is_collecting = True

    def __init__(self) -> None:
        self.found: dict[str, Tensor] = {}

    def add(self, table: Tensor, task: str, gradient: Tensor) -> None:
        self.found[task] = gradient


def test_rows_looked_up_once_per_span_have_a_gradient_each() -> None:
    table, task_tokens = filled(), FakeTaskTokens()
    found = look_up_each(table.weight, ROWS, task_tokens)  # type: ignore[arg-type]
    assert len(found) == 2 and all(torch.equal(each, table(ROWS)) for each in found)
    upstreams = torch.randn(2, 8, 3)
    sum((each * upstream).sum() for each, upstream in zip(found, upstreams, strict=True)).backward()
    for task, upstream in zip("ab", upstreams, strict=True):
        expected = torch.zeros(5, 3).index_add(0, ROWS, upstream)
        torch.testing.assert_close(task_tokens.found[task], expected)


def test_a_table_draws_no_random_numbers() -> None:
    state = torch.get_rng_state()
    Table(5, 3)
    assert torch.equal(torch.get_rng_state(), state)
