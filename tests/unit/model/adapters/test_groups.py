"""Groups: each group of tokens is multiplied by its own weight, and padding with zeros changes nothing."""

from __future__ import annotations

import pytest
import torch

from palbert.model.adapters import groups as module
from palbert.model.adapters.groups import Groups, for_layers, stack


def groups_of(sizes: list[int]) -> Groups:
    return Groups(sizes, torch.tensor(sizes).cumsum(0).int())


@pytest.mark.parametrize("sizes", [[5], [3, 2], [1, 4, 2]])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_grouped_product_equals_that_of_each_group_alone(
    sizes: list[int], biased: bool, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_has_kernel", lambda values, weights: grouped)  # torch has it on the CPU, too
    values, weights = torch.randn(sum(sizes), 8), torch.randn(len(sizes), 16, 8)
    biases = torch.randn(len(sizes), 16) if biased else None
    found = groups_of(sizes).product(values, weights, biases)
    for number, (piece, output) in enumerate(zip(values.split(sizes), found.split(sizes), strict=True)):
        expected = piece @ weights[number].t() + (0 if biases is None else biases[number])
        torch.testing.assert_close(output, expected)


def test_stacked_weights_are_ordered_by_layer_and_group_and_padded_with_zeros() -> None:
    weights = [[torch.randn(2, 3) for _ in range(4)] for _ in range(2)]  # two groups, four layers
    stacked = stack(weights, (2, 3), (5, 8))
    assert stacked.shape == (4, 2, 5, 8)
    for layer in range(4):
        for group in range(2):
            assert torch.equal(stacked[layer, group, :2, :3], weights[group][layer])
    assert stacked[:, :, 2:].abs().sum() == stacked[:, :, :, 3:].abs().sum() == 0


def test_layers_share_a_single_weight_and_its_gradient() -> None:
    weight = torch.ones(1, 2, requires_grad=True)
    first, *others = for_layers(weight, 3)
    assert len(others) == 2 and torch.equal(first, weight[0])
    (first + 2 * others[0] + 3 * others[1]).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[6.0, 6.0]]


def test_widths_are_aligned_on_a_gpu_only() -> None:
    assert groups_of([2]).aligned(13) == 13
    assert Groups([2], torch.empty(1, device="meta")).aligned(13) == 16
