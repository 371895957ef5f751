"""LoRA: low-rank updates of the projections' weights, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from palbert.batch import PackedBatch
from palbert.errors import PalbertError
from palbert.model.adapters import AdapterBranches, LoRA
from palbert.model.encoder import Encoder

SIZE = 24


@pytest.mark.parametrize("targets", [("query", "value"), ("key",), ("query", "key", "value")])
def test_lora_is_a_low_rank_update_of_the_weights(
    targets: tuple[str, ...], encoder: Encoder, filled: Any, one_sequence: PackedBatch
) -> None:
    adapter = filled(LoRA(SIZE, layers=2, rank=3, targets=targets, alpha=6.0))
    adapted = encoder(one_sequence, branches=AdapterBranches({"a": adapter}, one_sequence))
    with torch.no_grad():
        for number, layer in enumerate(encoder.blocks()):
            rows = iter(6.0 / 3 * adapter.b[number] @ adapter.a[number])
            for place, name in enumerate(("query", "key", "value")):
                if name in targets:
                    layer.query_key_value.weight[place * SIZE : (place + 1) * SIZE] += next(rows)
    torch.testing.assert_close(adapted, encoder(one_sequence), rtol=1e-5, atol=1e-5)


def test_an_unknown_projection_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PalbertError, match=r"'querry'.*Did you mean 'query'"):
        LoRA(SIZE, layers=1, targets=["querry"])


def test_lora_without_targets_is_refused() -> None:
    with pytest.raises(PalbertError, match="at least one of query, key and value"):
        LoRA(SIZE, layers=1, targets=[])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("targets", [("query", "value"), ("query", "key", "value")])
def test_lora_keeps_the_projection_in_the_format_of_autocast(
    targets: tuple[str, ...], one_sequence: PackedBatch
) -> None:
    # In float32, attention would have to do without flash attention.
    adapter, batch = LoRA(SIZE, layers=1, targets=targets).cuda(), one_sequence.to("cuda")
    hidden = torch.randn(batch.tokens, SIZE, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        total = torch.zeros(batch.tokens, 3 * SIZE, device="cuda", dtype=torch.bfloat16)
        assert AdapterBranches({"a": adapter}, batch).query_key_value(total, hidden).dtype == torch.bfloat16
