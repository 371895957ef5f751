"""Ways to run a layer in training: keep its activations for the backward pass, or compute them again there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from palbert.model.adapters.branches import Branches
from palbert.model.attention import Sequences
from palbert.model.dropout import Seeds
from palbert.model.linear import half_copies
from palbert.model.split import continue_pass, current_task_tokens

if TYPE_CHECKING:
    from palbert.model.encoder import Encoder

RunLayer = Callable[["Encoder", nn.Module, Tensor, Sequences, Branches], Tensor]
"""How an encoder runs a layer."""


def keep_activations(
    encoder: Encoder, layer: nn.Module, hidden: Tensor, sequences: Sequences, branches: Branches
) -> Tensor:
    """Run a layer and keep what its gradient needs."""
    output: Tensor = layer(hidden, sequences, branches)
    return output


def recompute_activations(
    encoder: Encoder, layer: nn.Module, hidden: Tensor, sequences: Sequences, branches: Branches
) -> Tensor:
    """Run a layer and keep only its input; the backward pass runs it again, with the same random numbers.

    Chen et al. 2016, arXiv:1604.06174, with every layer as a segment.
    """
    if not torch.is_grad_enabled():
        return keep_activations(encoder, layer, hidden, sequences, branches)
    conditions = _SameConditions(encoder, layer, [sequences.seeds, *branches.seeds])
    output: Tensor = checkpoint(
        layer, hidden, sequences, branches, use_reentrant=False, context_fn=lambda: (nullcontext(), conditions)
    )
    return output


class _SameConditions(AbstractContextManager[None]):
    """The temporary settings under which a layer ran, restored while a backward pass runs it again."""

    def __init__(self, encoder: Encoder, layer: nn.Module, seeds: Sequence[Seeds]) -> None:
        self.encoder, self.layer, self.task_tokens = encoder, layer, current_task_tokens()
        self.dropout, self.seed_states = encoder.temporary_dropout, [(each, each.state()) for each in seeds]

    def __enter__(self) -> None:
        for seeds, state in self.seed_states:
            seeds.restore(state)
        self.contexts = ExitStack()
        self.contexts.enter_context(continue_pass(self.task_tokens))
        self.contexts.enter_context(half_copies(self.layer))
        if self.dropout is not None:
            self.contexts.enter_context(self.encoder.with_dropout(self.dropout))

    def __exit__(self, *_: object) -> None:
        self.contexts.close()
