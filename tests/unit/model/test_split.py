"""Split: each task's gradient of shared weights from one backward pass, equal to autograd on that task alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.model.linear import Linear
from palbert.model.split import GradientSplitter, TaskTokens, begin_pass, continue_pass, current_task_tokens
from palbert.model.task_gradients import TaskGradients

UNEVEN = {"a": slice(0, 4), "b": slice(4, 9), "a+more": slice(9, 11)}
EVEN = {"a": slice(0, 4), "b": slice(4, 8), "c": slice(8, 12)}


def batch_of(tokens: dict[str, slice]) -> PackedBatch:
    """Make a batch of one sequence per part."""
    count = max(span.stop for span in tokens.values())
    parts = {
        name: Part(name.partition("+")[0], slice(number, number + 1), span)
        for number, (name, span) in enumerate(tokens.items())
    }
    starts = torch.tensor([0, *(span.stop for span in tokens.values())], dtype=torch.int32)
    ids = torch.zeros(count, dtype=torch.int64)
    return PackedBatch(ids, ids, ids, starts, max_length=count, parts=parts)


@pytest.fixture
def layer() -> Linear:
    """Make a linear layer."""
    torch.manual_seed(0)
    return Linear(3, 5)


def expected(layer: nn.Linear, inputs: Tensor, upstream: Tensor, spans: Sequence[slice]) -> list[Tensor]:
    """Return the gradients of a layer for some of the tokens, by autograd."""
    chosen = torch.zeros_like(upstream)
    for span in spans:
        chosen[span] = upstream[span]
    plain = nn.functional.linear(inputs, layer.weight, layer.bias)
    return list(torch.autograd.grad(plain, [layer.weight, layer.bias], chosen))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("tokens", [UNEVEN, EVEN], ids=["uneven", "even"])
def test_each_tasks_gradient_is_that_of_its_own_tokens(layer: Linear, tokens: dict[str, slice], large: bool) -> None:
    batch = batch_of(tokens)
    small = [layer.bias] if large else [layer.weight, layer.bias]
    split = GradientSplitter(TaskGradients(small, most=3), [layer.weight] if large else [])
    inputs, upstream = torch.randn(batch.tokens, 3), torch.randn(batch.tokens, 5)
    with split.splitting(), begin_pass(batch):
        output = layer(inputs)
    with split.collecting():
        output.backward(upstream)
    assert layer.weight.grad is None and layer.bias.grad is None, "autograd itself leaves nothing"
    tasks = list(dict.fromkeys(name.partition("+")[0] for name in tokens))
    assert split.gradients.tasks == tasks
    for row, task in enumerate(tasks):
        own = [span for name, span in tokens.items() if name.partition("+")[0] == task]
        weight, bias = expected(layer, inputs, upstream, own)
        torch.testing.assert_close(split.gradients.view(len(small) - 1, row), bias)
        if not large:
            torch.testing.assert_close(split.gradients.view(0, row), weight)
    if large:
        split.factors.compare(torch.zeros(len(tasks), len(tasks)))
        split.factors.combine(torch.ones(len(tasks)))
        whole, _ = expected(layer, inputs, upstream, list(tokens.values()))
        torch.testing.assert_close(layer.weight.grad, whole)


def test_with_too_many_tokens_the_gradients_of_large_weights_are_stored(
    layer: Linear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.model.factors.MOST_TOKENS", 15)
    batch = batch_of(UNEVEN)
    split = GradientSplitter(TaskGradients([layer.bias], most=2), [layer.weight])
    inputs, upstream = torch.randn(batch.tokens, 3), torch.randn(batch.tokens, 5)
    for _ in range(2):
        with split.splitting(), begin_pass(batch):
            output = layer(inputs)
        with split.collecting():
            output.backward(upstream)
    assert not split.factors
    weight, _ = expected(layer, inputs, upstream, [UNEVEN["b"]])
    torch.testing.assert_close(split.large.view(0, 1), 2 * weight)


def test_outside_taken_the_backward_pass_skips_the_weights(layer: Linear) -> None:
    batch = batch_of(EVEN)
    split = GradientSplitter(TaskGradients([layer.weight, layer.bias], most=3))
    inputs = torch.randn(batch.tokens, 3, requires_grad=True)
    with split.splitting(), begin_pass(batch):
        output = layer(inputs)
    output.sum().backward()
    assert inputs.grad is not None
    assert layer.weight.grad is None and split.gradients.holders() == {}


def test_a_pass_is_split_only_inside_watching_and_with_gradients() -> None:
    batch = batch_of(EVEN)
    split = GradientSplitter(TaskGradients([nn.Parameter(torch.zeros(2))], most=3))
    with begin_pass(batch):
        assert current_task_tokens() is None
    with split.splitting():
        with begin_pass(batch):
            found = current_task_tokens()
            assert isinstance(found, TaskTokens)
            with continue_pass(None):
                assert current_task_tokens() is None
            assert current_task_tokens() is found
        with torch.no_grad(), begin_pass(batch):
            assert current_task_tokens() is None
    assert current_task_tokens() is None


def test_bounds_and_tasks_of_the_tokens_match_the_batch() -> None:
    split = GradientSplitter(TaskGradients([nn.Parameter(torch.zeros(2))], most=3))
    found = TaskTokens(split, batch_of(UNEVEN))
    assert found.bounds.tolist() == [[0, 4], [4, 9], [9, 11]]
    assert found.of_tasks(torch.zeros(0)).tolist() == [[1] * 4 + [0] * 5 + [1] * 2, [0] * 4 + [1] * 5 + [0] * 2]
    assert not found.are_even()
    assert TaskTokens(GradientSplitter(TaskGradients([], most=3)), batch_of(EVEN)).are_even()
