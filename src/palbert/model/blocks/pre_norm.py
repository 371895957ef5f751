"""PreNormBlock: each step reads a normed copy of what it adds to (Xiong et al. 2020, arXiv:2002.04745)."""

from __future__ import annotations

from torch import Tensor

from palbert.model.adapters.branches import PLAIN, Branches
from palbert.model.attention import Sequences
from palbert.model.blocks.block import Block


class PreNormBlock(Block):
    """m = h + attention(norm(h)), then m + feed_forward(norm(m)); the encoder ends with a norm.

    Branches of adapters that run next to the whole block read what attention reads: the normed input.
    """

    has_final_norm = True

    def forward(self, hidden: Tensor, sequences: Sequences, branches: Branches = PLAIN) -> Tensor:
        """Return the block's output, (tokens, hidden)."""
        normed: Tensor = self.attention_norm(hidden)
        branches = branches.ready()
        middle = hidden + branches.after_attention(self.dropout(self.attend(normed, sequences, branches)))
        fed = branches.after_feed_forward(self.dropout(self.feed(self.norm(middle))))
        return branches.parallel(middle, normed) + fed
