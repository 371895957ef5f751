"""PostNormBlock: each sum is normed, as in BERT (Vaswani et al. 2017, arXiv:1706.03762)."""

from __future__ import annotations

from torch import Tensor

from palbert.model.adapters.branches import PLAIN, Branches
from palbert.model.attention import Sequences
from palbert.model.blocks.block import Block
from palbert.model.dropout import KEEP
from palbert.model.residual import add_and_norm


class PostNormBlock(Block):
    """m = norm(h + attention(h)), then norm(m + feed_forward(m))."""

    def forward(self, hidden: Tensor, sequences: Sequences, branches: Branches = PLAIN) -> Tensor:
        """Return the block's output, (tokens, hidden)."""
        # Adapters of a step's output see what dropout has left; else it can wait for the sum, and share its kernel.
        early, late = (self.dropout, KEEP) if branches.adapts_outputs else (KEEP, self.dropout)
        attended = branches.after_attention(early(self.attend(hidden, sequences, branches)))
        middle = add_and_norm(hidden, attended, self.attention_norm, late, sequences.seeds)
        fed = branches.after_feed_forward(early(self.feed(middle)))
        return add_and_norm(branches.beside(middle, hidden), fed, self.norm, late, sequences.seeds)
