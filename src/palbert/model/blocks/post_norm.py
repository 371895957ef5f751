"""PostNormBlock: each sum is normed, as in BERT (Vaswani et al. 2017, arXiv:1706.03762)."""

from __future__ import annotations

from torch import Tensor

from palbert.model.adapters.branches import PLAIN, Branches
from palbert.model.attention import Sequences
from palbert.model.blocks.block import Block
from palbert.model.dropout import NO_DROPOUT
from palbert.model.residual import add_and_norm


class PostNormBlock(Block):
    """m = norm(h + attention(h)), then norm(m + feed_forward(m))."""

    def forward(self, hidden: Tensor, sequences: Sequences, branches: Branches = PLAIN) -> Tensor:
        """Return the block's output, (tokens, hidden)."""
        # Adapters read an output after dropout; without them, dropout is part of the kernel that adds and norms.
        early, late = (self.dropout, NO_DROPOUT) if branches.adapts_outputs else (NO_DROPOUT, self.dropout)
        attended = branches.after_attention(early(self.attend(hidden, sequences, branches)))
        middle = add_and_norm(hidden, attended, self.attention_norm, late, sequences.seeds)
        fed = branches.after_feed_forward(early(self.feed(middle)))
        return add_and_norm(branches.parallel(middle, hidden), fed, self.norm, late, sequences.seeds)
