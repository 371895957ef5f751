"""Adapters: no change at the start, each task's own slice, and each paper's formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.batch import PackedBatch, Part
from palbert.errors import PalbertError
from palbert.model.adapters import PAL, Adapter, Branches, Houlsby, LoRA, LowRank, groups, pal
from palbert.model.adapters.groups import GROUPED, STEP, Groups
from palbert.model.attention import attend
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.registry import ADAPTERS

SIZE, LAYERS = 24, 2
CONFIG = EncoderConfig(
    family="bert",
    vocabulary_size=50,
    hidden_size=SIZE,
    embedding_size=SIZE,
    layers=LAYERS,
    heads=3,
    intermediate_size=40,
    max_length=40,
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.2,
)
OPTIONS: dict[str, dict[str, Any]] = {"pal": {"size": 10, "heads": 2, "dropout": 0.0}, "lora": {"rank": 3}}


def new(name: str, **options: Any) -> Adapter:
    return ADAPTERS[name](SIZE, layers=LAYERS, **{**OPTIONS.get(name, {}), **options})  # type: ignore[call-arg]


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
    """Take one task out of a batch."""
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


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(3)


@pytest.fixture
def encoder() -> Encoder:
    return Encoder(CONFIG)


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_new_adapter_equals_the_plain_encoder_exactly(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "b": [3]})
    adapters = {"a": new(name), "b": new(name)}
    assert torch.equal(encoder(batch, branches=Branches(adapters, batch)), encoder(batch))


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_new_adapter_learns_from_the_first_step(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9]})
    adapter = new(name)
    encoder(batch, branches=Branches({"a": adapter}, batch))[:, 0].sum().backward()
    assert any(bool(p.grad.abs().sum() > 0) for p in adapter.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", ADAPTERS)
def test_tasks_in_one_batch_are_as_each_task_alone(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "plain": [4, 1], "b": [3, 7, 7]})
    adapters = {"a": filled(new(name)), "b": filled(new(name))}
    together = encoder(batch, branches=Branches(adapters, batch))
    for task, part in batch.parts.items():
        single = alone(batch, task)
        expected = encoder(single, branches=Branches(adapters, single))
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
        hidden = encoder(batch, branches=Branches(adapters, batch))
        for task, part in batch.parts.items():
            found[task] = hidden[part.tokens]
            noise = torch.Generator().manual_seed(ord(task[0]))
            (torch.randn(found[task].shape, generator=noise) * found[task]).sum().backward(retain_graph=True)
    return found | {name: each.grad for name, each in modules.named_parameters() if each.grad is not None}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-5, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("with_adapter", ["a", "ab", "bc", "ac", "abc"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_values_and_gradients_of_a_mixed_batch_are_those_of_its_tasks(
    name: str, with_adapter: str, encoder: Encoder
) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    adapters = {task: filled(new(name)) for task in with_adapter}
    expected = outcome(encoder, adapters, [alone(batch, task) for task in batch.parts])
    assert_same(outcome(encoder, adapters, [batch]), expected)


@pytest.mark.parametrize("options", [{}, {"shared_projections": False}, {"size": 15, "heads": 5}])
def test_pals_may_differ_in_shape_or_be_one(options: dict[str, Any], encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    shared = filled(new("pal", **options))
    for adapters in ({"a": shared, "b": shared, "c": shared}, {"a": shared, "b": filled(new("pal")), "c": shared}):
        expected = outcome(encoder, adapters, [alone(batch, task) for task in batch.parts])
        assert_same(outcome(encoder, adapters, [batch]), expected)


@pytest.mark.parametrize("name", ADAPTERS)
def test_sequences_that_fill_a_part_up_leave_the_others_alone(name: str, encoder: Encoder) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    part = batch.parts["a"]
    parts = {**batch.parts, "a": replace(part, sequences=slice(0, 1), filling=1)}  # the second one only fills
    adapters = {task: filled(new(name)) for task in "abc"}
    expected = encoder(batch, branches=Branches(adapters, batch))
    torch.testing.assert_close(encoder(batch, branches=Branches(adapters, replace(batch, parts=parts))), expected)


@pytest.mark.parametrize("name", ADAPTERS)
def test_zeros_that_fill_weights_up_change_nothing(
    name: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    adapters = {task: filled(new(name)) for task in "ab"}
    expected = outcome(encoder, adapters, [batch])
    monkeypatch.setattr(Groups, "aligned", lambda self, width: width + -width % STEP)
    assert_same(outcome(encoder, adapters, [batch]), expected)


def test_the_pals_of_a_batch_attend_once_a_layer(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(pal, "attend", lambda *values, **options: calls.append(1) or attend(*values, **options))
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]})
    encoder(batch, branches=Branches({task: new("pal") for task in "abc"}, batch))
    assert len(calls) == LAYERS


@pytest.mark.parametrize("name", ADAPTERS)
def test_dropout_waits_for_the_sum_unless_an_adapter_reads_a_blocks_output(name: str) -> None:
    batch = pack({"a": [5]})
    assert Branches({"a": new(name)}, batch).adds == (name == "houlsby")


@pytest.mark.parametrize("with_adapter", ["bc", "abc"])
@pytest.mark.parametrize("name", ["pal", "low-rank", "lora", "houlsby"])
def test_grouped_products_are_those_of_the_slices(
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
def test_grouped_products_in_half_precision_are_those_of_the_slices(
    name: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = pack({"a": [5, 9], "b": [4, 1], "c": [3, 7, 7]}).to("cuda")
    adapters = {task: filled(new(name)).cuda() for task in "abc"}
    found = []
    for kinds in (GROUPED, ()):
        monkeypatch.setattr(groups, "GROUPED", kinds)
        with torch.autocast("cuda", torch.bfloat16):
            found.append(encoder.cuda()(batch, branches=Branches(adapters, batch)).float())
    torch.testing.assert_close(*found, rtol=0.05, atol=0.05)


def plain_layer(layer: Any, hidden: Tensor, *, attention: Tensor | None = None, fed: Any = None) -> Tensor:
    """Compute a layer without its last norm for one sequence, with terms put in by hand."""
    fused = layer.query_key_value(hidden) + (0 if attention is None else attention)
    query, key, value = fused.view(len(hidden), 3, layer.self_attention.heads, -1).permute(
        1, 2, 0, 3
    )  # (heads, tokens, width)
    weights = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(-1)
    mixed = layer.attention_output((weights @ value).transpose(0, 1).flatten(1))
    first, second = fed or (lambda x: x, lambda x: x)
    middle = layer.attention_norm(hidden + first(mixed))
    return middle + second(layer.output(F.gelu(layer.intermediate(middle))))  # type: ignore[no-any-return]


def run_by_hand(encoder: Encoder, batch: PackedBatch, step: Any) -> Tensor:
    hidden = encoder.embeddings(encoder.word_embeddings(batch.ids), batch.positions, batch.types)
    for number, layer in enumerate(encoder.layers):
        hidden = layer.norm(step(number, layer, hidden))
    return hidden


def check(encoder: Encoder, adapter: Adapter, step: Any) -> None:
    batch = pack({"a": [7]})
    expected = run_by_hand(encoder, batch, step)
    torch.testing.assert_close(encoder(batch, branches=Branches({"a": adapter}, batch)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_a_pal_is_attention_between_two_projections(shared: bool, encoder: Encoder) -> None:
    adapter = filled(new("pal", shared_projections=shared))
    assert isinstance(adapter, PAL)

    def step(number: int, layer: Any, hidden: Tensor) -> Tensor:
        down, up = (each[0 if shared else number] for each in (adapter.down, adapter.up))
        query, key, value = adapter.query_key_values[number](down(hidden)).view(7, 3, 2, 5).permute(1, 2, 0, 3)
        weights = (query @ key.transpose(1, 2) / 5**0.5).softmax(-1)
        return plain_layer(layer, hidden) + up((weights @ value).transpose(0, 1).flatten(1))

    check(encoder, adapter, step)


@pytest.mark.parametrize("shared", [True, False])
def test_a_low_rank_layer_is_two_projections(shared: bool, encoder: Encoder) -> None:
    adapter = filled(new("low-rank", shared_projections=shared, size=4))
    assert isinstance(adapter, LowRank)

    def step(number: int, layer: Any, hidden: Tensor) -> Tensor:
        place = 0 if shared else number
        return plain_layer(layer, hidden) + adapter.up[place](adapter.down[place](hidden))

    check(encoder, adapter, step)


def test_houlsby_adapters_stand_before_the_residuals(encoder: Encoder) -> None:
    adapter = filled(new("houlsby", size=4))
    assert isinstance(adapter, Houlsby)

    def step(number: int, layer: Any, hidden: Tensor) -> Tensor:
        fed = tuple(
            lambda x, each=each[number]: x + each.up(F.gelu(each.down(x)))
            for each in (adapter.attention, adapter.feed_forward)
        )
        return plain_layer(layer, hidden, fed=fed)

    check(encoder, adapter, step)


@pytest.mark.parametrize("targets", [("query", "value"), ("key",), ("query", "key", "value")])
def test_lora_is_a_low_rank_update_of_the_weights(targets: tuple[str, ...], encoder: Encoder) -> None:
    adapter = filled(new("lora", targets=targets, alpha=6.0))
    assert isinstance(adapter, LoRA)
    batch = pack({"a": [7, 2]})
    adapted = encoder(batch, branches=Branches({"a": adapter}, batch))
    with torch.no_grad():
        for number, layer in enumerate(encoder.layers):
            rows = iter(6.0 / 3 * adapter.b[number] @ adapter.a[number])
            for place, name in enumerate(("query", "key", "value")):
                if name in targets:
                    layer.query_key_value.weight[place * SIZE : (place + 1) * SIZE] += next(rows)  # type: ignore[union-attr, index]
    torch.testing.assert_close(adapted, encoder(batch), rtol=1e-5, atol=1e-5)


def test_eight_pals_make_bert_base_1_13_times_as_large() -> None:
    pal = sum(parameter.numel() for parameter in PAL(768, layers=12, size=204, heads=12).parameters())
    bert_base = 109_482_240
    assert pal == 2 * 768 * 204 + 12 * 3 * 204 * 204
    assert round((bert_base + 8 * pal) / bert_base, 2) == 1.13


def test_heads_that_do_not_divide_the_size_are_refused() -> None:
    with pytest.raises(PalbertError, match=r"5 heads cannot share a PAL of size 12"):
        PAL(SIZE, layers=1, size=12, heads=5)


def test_an_unknown_projection_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PalbertError, match=r"'querry'.*Did you mean 'query'"):
        LoRA(SIZE, layers=1, targets=["querry"])


def test_lora_without_targets_is_refused() -> None:
    with pytest.raises(PalbertError, match="at least one of query, key and value"):
        LoRA(SIZE, layers=1, targets=[])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("targets", [("query", "value"), ("query", "key", "value")])
def test_lora_leaves_the_projection_in_autocasts_format(targets: tuple[str, ...]) -> None:
    # In float32, attention would have to do without flash attention.
    adapter, hidden = LoRA(SIZE, layers=1, targets=targets).cuda(), torch.randn(5, SIZE, device="cuda")
    batch = pack({"a": [5]}).to("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        total = torch.zeros(5, 3 * SIZE, device="cuda", dtype=torch.bfloat16)
        assert Branches({"a": adapter}, batch).query_key_value(total, hidden).dtype == torch.bfloat16
