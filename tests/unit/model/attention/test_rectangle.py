"""Attention over padded texts: what every text gives alone."""

from __future__ import annotations

import pytest
import torch

from palbert.model.attention import attend
from palbert.model.attention.rectangle import Rectangle


@pytest.mark.parametrize("window", [0, 1, 3])
def test_padded_texts_attend_as_they_do_alone(window: int) -> None:
    torch.manual_seed(0)
    lengths = [7, 1, 4]
    values = torch.randn(3, 7, 3, 2, 5)
    relative = torch.randn(2, 7, 7)
    mask = (torch.arange(7) < torch.tensor(lengths)[:, None]).long()
    texts = Rectangle.of_mask(mask, relative=relative).within(window)
    found = attend(values.flatten(0, 1), texts).view(3, 7, 2, 5)
    for number, length in enumerate(lengths):
        query, key, value = values[number, :length].permute(1, 2, 0, 3).unbind()
        scores = query @ key.transpose(1, 2) * 5**-0.5 + relative[:, :length, :length]
        place = torch.arange(length)
        if window:
            scores = scores.masked_fill((place[:, None] - place).abs() > window, float("-inf"))
        torch.testing.assert_close(found[number, :length], (scores.softmax(-1) @ value).transpose(0, 1))
    assert found.isfinite().all()  # padding far from every token, too
