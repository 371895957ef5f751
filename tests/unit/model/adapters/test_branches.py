"""Branches: adapters change nothing at the start, and each works on the tokens of its own task only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.model.adapters import Adapter, AdapterBranches, groups, pal
from palbert.model.adapters.groups import GROUPED, STEP, Groups
from palbert.model.attention import attend
from palbert.model.encoder import Encoder
from palbert.registry import ADAPTERS

SIZE, LAYERS = 24, 2
OPTIONS: dict[str, dict[str, Any]] = {"pal": {"size": 10, "heads": 2, "dropout": 0.0}, "lora": {"rank": 3}}


def new(name: str, **options: Any) -> Adapter:
    adapter: Adapter = ADAPTERS[name](SIZE, layers=LAYERS, **{**OPTIONS.get(name, {}), **options})
    return adapter


def filled(adapter: Adapter) -> Adapter:
    """Fill an adapter at random, as if it had been trained."""
    for parameter in adapter.parameters():
        nn.init.normal_(parameter, std=0.3)
    return adapter


def pack(lengths: dict[str, list[int]]) -> PackedBatch:
    sizes = [length for each in lengths.values() for length in each]
    parts, sequence, token = {}, 0, 0
    for task, each in lengths.items():
        parts[task] = Part(task, slice(sequence, sequence + len(each)), slice(token, token + sum(each)))
        sequence, token = sequence + len(each), token + sum(each)
    return PackedBatch(
        ids=torch.randint(50, (sum(sizes),)),
        positions=torch.cat([torch.arange(size) for size in sizes]),
        types=torch.zeros(sum(sizes), dtype=torch.long),
        starts=torch.tensor([0, *sizes]).cumsum(0).int(),
        max_length=max(sizes),
        parts=parts,
    )


def alone(batch: PackedBatch, task: str) -> PackedBatch:
    """Return the batch of one task alone."""
    part = batch.parts[task]
    starts = batch.starts[part.sequences.start : part.sequences.stop + 1]
    return PackedBatch(
        ids=batch.ids[part.tokens],
        positions=batch.positions[part.tokens],
        types=batch.types[part.tokens],
        starts=starts - starts[0],
        max_length=int(starts.diff().max()),
        parts={task: Part(task, slice(0, len(starts) - 1), slice(0, part.tokens.stop - part.tokens.start))},
    )


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_new_adapter_does_not_change_the_encoder(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "b": [3]})
    adapters = {"a": new(name), "b": new(name)}
    assert torch.equal(encoder(batch, branches=AdapterBranches(adapters, batch)), encoder(batch))


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_new_adapter_learns_from_the_first_step(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9]})
    adapter = new(name)
    encoder(batch, branches=AdapterBranches({"a": adapter}, batch))[:, 0].sum().backward()
    assert any(bool(p.grad.abs().sum() > 0) for p in adapter.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", ADAPTERS)
def test_tasks_in_one_batch_have_the_states_of_each_task_alone(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "plain": [4, 1], "b": [3, 7, 7]})
    adapters = {"a": filled(new(name)), "b": filled(new(name))}
    together = encoder(batch, branches=AdapterBranches(adapters, batch))
    for task, part in batch.parts.items():
        single = alone(batch, task)
        expected = encoder(single, branches=AdapterBranches(adapters, single))
        torch.testing.assert_close(together[part.tokens], expected, rtol=1e-5, atol=1e-5)
    plain = encoder(alone(batch, "plain"))
    torch.testing.assert_close(together[batch.parts["plain"].tokens], plain, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(together[batch.parts["a"].tokens], encoder(alone(batch, "a")), atol=1e-3)


def outcome(encoder: Encoder, adapters: dict[str, Adapter], batches: list[PackedBatch]) -> dict[str, Tensor]:
    """Encode batches; return the last states by task, and the gradients of a random function of them by name."""
    modules = nn.ModuleDict({"encoder": encoder, **adapters})
    modules.zero_grad()
    found = {}
    for batch in batches:
        hidden = encoder(batch, branches=AdapterBranches(adapters, batch))
        for task, part in batch.parts.items():
            found[task] = hidden[part.tokens]
            noise = torch.Generator().manual_seed(ord(task[0]))
            (torch.randn(found[task].shape, generator=noise) * found[task]).sum().backward(retain_graph=True)
    return found | {name: each.grad for name, each in modules.named_parameters() if each.grad is not None}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-4, msg=f"{name} differs")


@pytest.mark.parametrize("with_adapter", ["a", "ab", "bc", "ac", "abc"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_values_and_gradients_of_a_mixed_batch_equal_those_of_its_tasks(
    name: str, with_adapter: str, encoder: Encoder
) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    adapters = {task: filled(new(name)) for task in with_adapter}
    expected = outcome(encoder, adapters, [alone(batch, task) for task in batch.parts])
    assert_same(outcome(encoder, adapters, [batch]), expected)


@pytest.mark.parametrize("options", [{}, {"shared_projections": False}, {"size": 15, "heads": 5}])
def test_pals_may_differ_in_shape_or_be_shared(options: dict[str, Any], encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    shared = filled(new("pal", **options))
    for adapters in ({"a": shared, "b": shared, "c": shared}, {"a": shared, "b": filled(new("pal")), "c": shared}):
        expected = outcome(encoder, adapters, [alone(batch, task) for task in batch.parts])
        assert_same(outcome(encoder, adapters, [batch]), expected)


@pytest.mark.parametrize("name", ADAPTERS)
def test_sequences_that_fill_up_a_part_do_not_affect_the_others(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    part = batch.parts["a"]
    parts = {**batch.parts, "a": replace(part, sequences=slice(0, 1), filling=1)}  # the second one only fills
    adapters = {task: filled(new(name)) for task in "abc"}
    expected = encoder(batch, branches=AdapterBranches(adapters, batch))
    torch.testing.assert_close(
        encoder(batch, branches=AdapterBranches(adapters, replace(batch, parts=parts))), expected
    )


@pytest.mark.parametrize("name", ADAPTERS)
def test_zeros_that_fill_up_weights_change_nothing(
    name: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    adapters = {task: filled(new(name)) for task in "ab"}
    expected = outcome(encoder, adapters, [batch])
    monkeypatch.setattr(Groups, "aligned", lambda self, width: width + -width % STEP)
    assert_same(outcome(encoder, adapters, [batch]), expected)


def test_the_pals_of_a_batch_attend_once_per_layer(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*values: Any, **options: Any) -> Tensor:
        calls.append(1)
        return attend(*values, **options)

    monkeypatch.setattr(pal, "attend", counted)
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    encoder(batch, branches=AdapterBranches({task: new("pal") for task in "abc"}, batch))
    assert len(calls) == LAYERS


@pytest.mark.parametrize("name", ADAPTERS)
def test_only_houlsby_adapters_read_the_output_of_a_block(name: str) -> None:
    batch = pack({"a": [5]})
    assert AdapterBranches({"a": new(name)}, batch).adapts_outputs == (name == "houlsby")


@pytest.mark.parametrize("with_adapter", ["bc", "abc"])
@pytest.mark.parametrize("name", ["pal", "low-rank", "lora", "houlsby"])
def test_grouped_products_equal_those_of_the_slices(
    name: str, with_adapter: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    adapters = {task: filled(new(name)) for task in with_adapter}
    expected = outcome(encoder, adapters, [batch])
    # torch has them on the CPU too, of aligned widths.
    monkeypatch.setattr(Groups, "aligned", lambda self, width: width + -width % STEP)
    monkeypatch.setattr(groups, "_has_kernel", lambda values, weights: True)
    assert_same(outcome(encoder, adapters, [batch]), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", ["pal", "low-rank", "lora", "houlsby"])
def test_grouped_products_in_half_precision_equal_those_of_the_slices(
    name: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]}).to("cuda")
    adapters = {task: filled(new(name)).cuda() for task in "abc"}
    found = []
    for kinds in (GROUPED, ()):
        monkeypatch.setattr(groups, "GROUPED", kinds)
        with torch.autocast("cuda", torch.bfloat16):
            found.append(encoder.cuda()(batch, branches=AdapterBranches(adapters, batch)).float())
    torch.testing.assert_close(*found, rtol=0.05, atol=0.05)
