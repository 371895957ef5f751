"""MLM: hide some words of a text and ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.model.masked import MaskedModel
from palbert.objectives.objective import Objective
from palbert.runtime.distributed import Ranks

HIDDEN, REPLACED = 0.8, 0.1
"""Of the chosen tokens, those that become the mask token and those that become any word; the others stay."""


@dataclass(frozen=True)
class Masked:
    """A batch with hidden words."""

    batch: PackedBatch
    """What the encoder sees."""
    places: Tensor
    """Places of the chosen words, (places,); with a fixed shape, followed by some that were not chosen."""
    labels: Tensor
    """The original words there, (places,)."""
    chosen: Tensor
    """Which of the places were chosen, (places,)."""


class Masking(nn.Module):
    """Choose words in every batch; mask 80 % of them, replace 10 % by random words, and keep 10 %.

    Devlin et al. 2019 (BERT), arXiv:1810.04805, section 3.1 and appendix A.1. In a sequence with n tokens that are not
    special, share × n are chosen uniformly: the number is rounded up or down at random, so that the share is right on
    average for short texts too, and is at least one. BERT rounds to the nearest number.

    All random numbers come from torch's generator, so a resumed run sees the same masks.
    """

    ordinary: Tensor
    maskable: Tensor

    def __init__(self, *, share: float, mask_id: int, ordinary_ids: Sequence[int], vocabulary_size: int) -> None:
        """Take the share to choose and the vocabulary.

        Args:
            share: The share of the tokens to choose.
            mask_id: The mask token.
            ordinary_ids: The tokens that are text; only they are chosen, and replace others.
            vocabulary_size: The number of tokens in the vocabulary.
        """
        super().__init__()
        self.share = share
        self.mask_id = mask_id
        ordinary = torch.as_tensor(ordinary_ids, dtype=torch.int64)
        maskable = torch.zeros(vocabulary_size, dtype=torch.bool)
        maskable[ordinary] = True
        # Derived from the tokenizer, so checkpoints do not hold them.
        self.register_buffer("ordinary", ordinary, persistent=False)
        self.register_buffer("maskable", maskable, persistent=False)

    def forward(
        self, batch: PackedBatch, generator: torch.Generator | None = None, *, fixed: bool | None = None
    ) -> Masked:
        """Return the batch with hidden words.

        Args:
            batch: The texts.
            generator: The source of random numbers; torch's own unless given.
            fixed: Whether the number of places must not depend on what is drawn; on CUDA by default.
        """
        places, chosen = self._choose(batch, generator, fixed=batch.ids.is_cuda if fixed is None else fixed)
        labels = batch.ids[places].long()
        kinds = len(self.ordinary)
        words = self.ordinary[torch.randint(kinds, places.shape, generator=generator, device=places.device)]
        draw = _draw(len(places), generator, like=places)
        shown = torch.where(draw < HIDDEN + REPLACED, words, labels).masked_fill(draw < HIDDEN, self.mask_id)
        shown = torch.where(chosen, shown, labels)
        ids = batch.ids.index_copy(0, places, shown.to(batch.ids.dtype))
        return Masked(replace(batch, ids=ids), places, labels, chosen)

    def _choose(self, batch: PackedBatch, generator: torch.Generator | None, *, fixed: bool) -> tuple[Tensor, Tensor]:
        """Return the places of the chosen tokens, sequence by sequence, and which of the places were chosen."""
        lengths = batch.starts.diff()
        sequence = torch.repeat_interleave(lengths, output_size=batch.tokens)  # of each token, (tokens,)
        maskable = self.maskable[batch.ids]
        counts = torch.zeros_like(lengths).index_add_(0, sequence, maskable.to(lengths.dtype))
        rounded = (self.share * counts + _draw(len(counts), generator, like=counts)).floor().to(counts.dtype)
        chosen = torch.minimum(rounded.clamp(min=1), counts)
        # The tokens of each sequence in random order, those that must not be chosen last; the first ones are chosen.
        shuffled = _draw(batch.tokens, generator, like=sequence).argsort()
        order = shuffled[(2 * sequence + ~maskable)[shuffled].argsort(stable=True)]
        are_chosen = batch.positions < chosen[sequence]  # the order of sequences is unchanged
        if not fixed:
            places = order[are_chosen]
            return places, torch.ones_like(places, dtype=torch.bool)
        # Only the device knows how many are chosen: return the most there can be, the chosen ones first.
        most = min(batch.tokens, int(self.share * batch.tokens) + batch.sequences)
        first = are_chosen.logical_not().to(torch.uint8).argsort(stable=True)[:most]
        return order[first], are_chosen[first]


class MLM(Objective):
    """The mean of −log p(word) over the chosen words, given the masked text (arXiv:1810.04805)."""

    def __init__(self, masking: Masking, *, name: str = "mlm") -> None:
        super().__init__()
        self.masking = masking
        self.name = name
        self.ranks = Ranks()

    def join(self, ranks: Ranks) -> None:
        """Train with other processes: each is given all rows of a step, and computes the loss of its own."""
        self.ranks = ranks

    def forward(self, model: MaskedModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the loss under the objective's name, times the share of the step's rows that this batch holds."""
        if self.ranks.size == 1:
            masked = self.masking(batch)
            words = masked.chosen.sum()
        else:
            masked, words = self._own(batch)
        # The loss of a batch that has only special tokens is 0.
        return {self.name: self.of_words(model, masked) / words.clamp(min=1) * batch.parts[self.name].share}

    def of_words(self, model: MaskedModel, masked: Masked) -> Tensor:
        """Return the sum of −log p over the chosen words."""
        losses = F.cross_entropy(model(masked.batch, masked.places), masked.labels, reduction="none")
        return torch.where(masked.chosen, losses, 0.0).sum()

    def _own(self, batch: PackedBatch) -> tuple[Masked, Tensor]:
        """Return this process's rows of a step, and the number of chosen words in all of its rows.

        The first process chooses and hides the words of all rows, with the random numbers that a single process draws.
        """
        ids, chosen = batch.ids, torch.zeros_like(batch.ids)
        if self.ranks.is_first:
            masked = self.masking(batch)
            ids, chosen = masked.batch.ids, chosen.index_copy(0, masked.places, masked.chosen.to(chosen.dtype))
        ids, chosen = self.ranks.broadcast(torch.stack([ids, chosen]))
        own = np.array_split(np.arange(batch.sequences), self.ranks.size)[self.ranks.rank]
        # With fewer rows than processes, some take a row of which no word counts.
        rows = slice(int(own[0]), int(own[-1]) + 1) if len(own) else slice(batch.sequences - 1, batch.sequences)
        tokens = slice(*batch.starts[[rows.start, rows.stop]].tolist())
        places = chosen[tokens].nonzero().flatten() if len(own) else chosen.new_zeros(0)
        labels = batch.ids[tokens][places].long()
        hidden = replace(batch, ids=ids).of_sequences(rows, tokens)
        return Masked(hidden, places, labels, torch.ones_like(places, dtype=torch.bool)), chosen.sum()


def _draw(count: int, generator: torch.Generator | None, *, like: Tensor) -> Tensor:
    """Draw numbers from 0 to below 1."""
    return torch.rand(count, generator=generator, device=like.device)
