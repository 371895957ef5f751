"""Attention of a single sequence: equal to padded attention, and used wherever nothing has a gradient."""

from __future__ import annotations

import pytest
import torch

from palbert.model.attention import Sequences, attend, backends
from palbert.model.attention.alone import attend_alone
from palbert.model.attention.padded import attend_padded


def one_sequence(tokens: int, *, biased: bool = False) -> Sequences:
    bias = torch.randn(2, 2 * tokens - 1) if biased else None
    return Sequences(torch.tensor([0, tokens], dtype=torch.int32), tokens=tokens, max_length=tokens, bias=bias)


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("tokens", [1, 2, 9])
def test_a_single_sequence_is_attended_to_as_with_padding(tokens: int, biased: bool) -> None:
    torch.manual_seed(0)
    inputs, sequences = torch.randn(tokens, 3, 2, 4), one_sequence(tokens, biased=biased)
    kept = inputs.clone()
    found = attend_alone(inputs, sequences.scores, 0.3)
    torch.testing.assert_close(found, attend_padded(inputs, sequences, 0.0, 0.3))
    assert torch.equal(inputs, kept)


def test_only_a_single_sequence_without_gradients_and_dropout_does_without_padding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    padded: list[int] = []

    def count(inputs: torch.Tensor, *rest: object) -> torch.Tensor:
        padded.append(len(inputs))
        return inputs[:, 0]

    monkeypatch.setattr(backends, "attend_padded", count)
    alone = one_sequence(6)
    two = Sequences(torch.tensor([0, 4, 7], dtype=torch.int32), tokens=7, max_length=4)
    with torch.inference_mode():
        attend(torch.randn(6, 3, 2, 4), alone)
        assert padded == []
        attend(torch.randn(7, 3, 2, 4), two)
        attend(torch.randn(6, 3, 2, 4), alone.within(1))
        attend(torch.randn(6, 3, 2, 4), alone, dropout=0.5)
    attend(torch.randn(6, 3, 2, 4), alone)
    assert padded == [7, 6, 6, 6]
