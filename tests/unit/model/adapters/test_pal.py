"""PALs: the formula and the sizes of the paper."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from palbert.errors import PalbertError
from palbert.model.adapters import PAL


@pytest.mark.parametrize("shared", [True, False])
def test_a_pal_is_attention_between_two_projections(shared: bool, filled: Any, check: Any, plain_layer: Any) -> None:
    adapter = filled(PAL(24, layers=2, size=10, heads=2, dropout=0.0, shared_projections=shared))

    def step(number: int, layer: Any, hidden: Tensor) -> Tensor:
        down, up = (each[0 if shared else number] for each in (adapter.down, adapter.up))
        query, key, value = adapter.query_key_values[number](down(hidden)).view(7, 3, 2, 5).permute(1, 2, 0, 3)
        weights = (query @ key.transpose(1, 2) / 5**0.5).softmax(-1)
        return plain_layer(layer, hidden) + up((weights @ value).transpose(0, 1).flatten(1))  # type: ignore[no-any-return]

    check(adapter, step)


def test_eight_pals_make_bert_base_1_13_times_as_large() -> None:
    pal = sum(parameter.numel() for parameter in PAL(768, layers=12, size=204, heads=12).parameters())
    bert_base = 109_482_240
    assert pal == 2 * 768 * 204 + 12 * 3 * 204 * 204
    assert round((bert_base + 8 * pal) / bert_base, 2) == 1.13


def test_heads_that_do_not_divide_the_size_are_refused() -> None:
    with pytest.raises(PalbertError, match=r"5 heads cannot share a PAL of size 12"):
        PAL(24, layers=1, size=12, heads=5)


def test_attention_dropout_is_applied_only_in_training() -> None:
    adapter = PAL(24, layers=1, size=12, heads=2, dropout=0.3)
    assert adapter.rate == 0.3
    assert adapter.eval().rate == 0.0
