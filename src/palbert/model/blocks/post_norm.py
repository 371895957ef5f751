"""PostNormBlock: each sum is normed, as in BERT (Vaswani et al. 2017, arXiv:1706.03762)."""

from __future__ import annotations

from torch import Tensor

from palbert.model.adapters.branches import PLAIN, Branches
from palbert.model.attention import Sequences
from palbert.model.blocks.block import Block
from palbert.model.dropout import NO_DROPOUT
from palbert.model.linear import InferenceLinear
from palbert.model.residual import add_and_norm


class PostNormBlock(Block):
    """m = norm(h + attention(h)), then norm(m + feed_forward(m))."""

    def forward(self, hidden: Tensor, sequences: Sequences, branches: Branches = PLAIN) -> Tensor:
        """Return the block's output, (tokens, hidden)."""
        if branches is PLAIN and isinstance(self.attention_output, InferenceLinear):
            return self._infer(hidden, sequences)
        # Adapters read an output after dropout; without them, dropout is part of the kernel that adds and norms.
        early, late = (self.dropout, NO_DROPOUT) if branches.adapts_outputs else (NO_DROPOUT, self.dropout)
        attended = branches.after_attention(early(self.attend(hidden, sequences, branches)))
        middle = add_and_norm(hidden, attended, self.attention_norm, late, sequences.seeds)
        fed = branches.after_feed_forward(early(self.feed(middle)))
        return add_and_norm(branches.parallel(middle, hidden), fed, self.norm, late, sequences.seeds)

    def _infer(self, hidden: Tensor, sequences: Sequences) -> Tensor:
        """Return the same with few kernels: layers for inference add the residuals themselves, without dropout."""
        assert isinstance(self.attention_output, InferenceLinear) and isinstance(self.output, InferenceLinear)
        mixed = self.self_attention(self.query_key_value(hidden), sequences)
        middle = self.attention_norm(self.attention_output.add_to(hidden, mixed))
        fed = self.feed_forward(self.intermediate(middle))
        output: Tensor = self.norm(self.output.add_to(middle, fed))
        return output
