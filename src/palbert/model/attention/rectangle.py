"""Rectangle: texts padded to one length, for graphs that leave palbert; attention by plain products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from palbert.model.attention.sequences import Sequences
from palbert.model.positions.rotary import Rotation

CLOSED = -1e9
"""Added to the score of a key that a query must not see. Finite: a row of padding may see no key at all."""


@dataclass(frozen=True)
class Rectangle(Sequences):
    """Texts of one length, one after the other: token i of text t is token t × length + i.

    Its sizes may be symbols of a graph that is being recorded, so nothing here decides by them.
    """

    texts: int = 0
    """The number of texts."""
    mask: Tensor = field(default_factory=lambda: torch.empty(0))
    """Added to the scores, (texts, 1, 1, length): 0 for tokens of the text, `CLOSED` for padding."""
    relative: Tensor | None = None
    """Added to the score of query i and key j, (heads, length, length)."""

    @classmethod
    def of_mask(
        cls, mask: Tensor, *, rotations: Mapping[float, Rotation] | None = None, relative: Tensor | None = None
    ) -> Rectangle:
        """Return the rectangle of a mask, (texts, length): 1 for tokens, 0 for padding."""
        texts, length = mask.shape
        # No branch of an adapter has more than one group here, so nothing reads where sequences start.
        starts = torch.zeros(1, dtype=torch.int32, device=mask.device)
        closed = (1.0 - mask[:, None, None].float()) * CLOSED
        return cls(
            starts, tokens=texts * length, max_length=length, texts=texts, mask=closed, relative=relative,
            rotations=rotations or {},
        )  # fmt: skip

    def within(self, window: int) -> Rectangle:
        """Return the same texts with attention limited to `window` tokens on each side; 0 for no limit."""
        if not window:
            return self
        if window not in self.known_windows:
            place = torch.arange(self.max_length, device=self.mask.device)
            far = ((place[:, None] - place).abs() > window).float() * CLOSED
            self.known_windows[window] = replace(self, mask=self.mask + far, window=window, known_windows={})
        found = self.known_windows[window]
        assert isinstance(found, Rectangle)
        return found


def attend_rectangle(query_key_value: Tensor, texts: Rectangle, scale: float) -> Tensor:
    """Attend as `attend` says, outside training.

    Args:
        query_key_value: (tokens, 3, heads, width).
        texts: How the tokens lie.
        scale: Factor on the scores.

    Returns:
        (tokens, heads, width).
    """
    _, _, heads, width = query_key_value.shape
    split = query_key_value.view(texts.texts, texts.max_length, 3, heads, width)
    query, key, value = split.permute(2, 0, 3, 1, 4).unbind()  # each (texts, heads, length, width)
    scores = torch.matmul(query * scale, key.transpose(2, 3)) + texts.mask
    if texts.relative is not None:
        scores = scores + texts.relative
    mixed = torch.matmul(scores.softmax(-1), value)
    return mixed.transpose(1, 2).reshape(-1, heads, width)
