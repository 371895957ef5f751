"""RelativeBias: buckets of the paper, a bias for each distance, and gradients that can be split by task."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from palbert.batch import PackedBatch, Part
from palbert.model.attention import Sequences
from palbert.model.positions.relative import RelativeBias, bucket_of
from palbert.model.split import GradientSplitter, begin_pass
from palbert.model.task_gradients import TaskGradients


def pack(lengths: list[int]) -> PackedBatch:
    tokens = sum(lengths)
    return PackedBatch(
        ids=torch.randint(50, (tokens,)),
        positions=torch.cat([torch.arange(length) for length in lengths]),
        types=torch.randint(2, (tokens,)),
        starts=torch.tensor([0, *lengths]).cumsum(0).int(),
        max_length=max(lengths),
    )


def filled(heads: int = 3) -> RelativeBias:
    relative = RelativeBias(32, heads)
    nn.init.normal_(relative.weight)
    return relative


def buckets_by_definition(distance: int) -> int:
    """Return T5's bucket of key minus query, 32 buckets up to distance 128, in whole numbers."""
    far = sum(abs(distance) ** 8 >= 8**8 * 16**step for step in range(1, 8))  # 8 + log(n / 8) / log(16) × 8
    return (16 if distance > 0 else 0) + (abs(distance) if abs(distance) < 8 else 8 + far)


def test_relative_buckets_follow_the_paper() -> None:
    distances = torch.arange(-511, 512)
    expected = torch.tensor([buckets_by_definition(distance) for distance in distances.tolist()])
    assert torch.equal(bucket_of(distances, 32), expected)


def test_the_bias_depends_on_the_distance() -> None:
    relative, batch = filled(), pack([9, 2])
    scores = relative.add_to(Sequences.of(batch), batch).scores
    assert scores is not None
    for query in range(9):
        for key in range(9):
            assert torch.equal(scores[:, query, key], relative.weight[buckets_by_definition(key - query)])


def test_each_task_has_the_gradient_of_its_own_part() -> None:
    relative, batch = filled(), pack([5, 9])
    parts = {"a": Part("a", slice(0, 1), slice(0, 5)), "b": Part("b", slice(1, 2), slice(5, 14))}
    batch = replace(batch, parts=parts)
    gradients = TaskGradients([relative.weight], most=2)
    split = GradientSplitter(gradients)
    with split.splitting(), begin_pass(batch):
        by_part = relative.add_to(Sequences.of(batch), batch).by_part
    plain = relative.add_to(Sequences.of(batch), batch).bias
    assert plain is not None and [part.tokens for part in by_part] == [5, 9]
    upstreams = torch.randn(2, *plain.shape)
    with split.collecting():
        biases = [part.bias for part in by_part if part.bias is not None]
        torch.autograd.backward(biases, list(upstreams))
    assert all(torch.equal(bias, plain) for bias in biases)
    for task, upstream in zip("ab", upstreams, strict=True):
        (expected,) = torch.autograd.grad(plain, relative.weight, upstream, retain_graph=True)
        torch.testing.assert_close(gradients.view(0, gradients.row(task)), expected)
