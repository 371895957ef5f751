"""MLM: hide some words of a text and ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.model.masked import MaskedModel
from palbert.objectives.objective import Objective

HIDDEN, REPLACED = 0.8, 0.1
"""Of the chosen tokens, those that become the mask token and those that become any word; the others stay."""


@dataclass(frozen=True)
class Masked:
    """A batch with hidden words."""

    batch: PackedBatch
    """What the encoder sees."""
    places: Tensor
    """Where words were chosen, (places,); maybe a few others with them, so that chance does not make the shape."""
    labels: Tensor
    """The words that stood there, (places,)."""
    chosen: Tensor
    """Which of the places count, (places,)."""


class Masking(nn.Module):
    """Choose words anew in every batch; of those, hide 80 %, replace 10 % by any word, and leave 10 %.

    Devlin et al. 2019 (BERT), arXiv:1810.04805, section 3.1 and appendix A.1. Of a sequence with n tokens that are not
    special, share × n are chosen, without preference: the number is rounded up or down at random, so that the share
    is right on average in short texts as well, and is at least one. BERT rounds to the nearest number.

    Every draw comes from torch's generator, so a run that is resumed sees the same masks.
    """

    ordinary: Tensor
    maskable: Tensor

    def __init__(self, *, share: float, mask_id: int, ordinary_ids: Sequence[int], vocabulary_size: int) -> None:
        """Take the share to choose and the vocabulary.

        Args:
            share: The share of the tokens to choose.
            mask_id: The token that stands for a hidden word.
            ordinary_ids: The tokens that are text: they alone are chosen, and are what replaces others.
            vocabulary_size: Tokens in all.
        """
        super().__init__()
        self.share = share
        self.mask_id = mask_id
        ordinary = torch.as_tensor(ordinary_ids, dtype=torch.int64)
        maskable = torch.zeros(vocabulary_size, dtype=torch.bool)
        maskable[ordinary] = True
        # Made from the tokenizer each time: checkpoints need not hold them.
        self.register_buffer("ordinary", ordinary, persistent=False)
        self.register_buffer("maskable", maskable, persistent=False)

    def forward(
        self, batch: PackedBatch, generator: torch.Generator | None = None, *, fixed: bool | None = None
    ) -> Masked:
        """Return the batch with hidden words.

        Args:
            batch: The texts.
            generator: Where draws come from; torch's own unless given.
            fixed: Whether the number of places is to be the same whatever is drawn; so on CUDA unless given.
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
        """Return the places of the chosen tokens, sequence after sequence, and which of them are."""
        lengths = batch.starts.diff()
        sequence = torch.repeat_interleave(lengths, output_size=batch.tokens)  # of each token, (tokens,)
        maskable = self.maskable[batch.ids]
        counts = torch.zeros_like(lengths).index_add_(0, sequence, maskable.to(lengths.dtype))
        rounded = (self.share * counts + _draw(len(counts), generator, like=counts)).floor().to(counts.dtype)
        chosen = torch.minimum(rounded.clamp(min=1), counts)
        # Each sequence's tokens in a random order, those that may not be chosen last: the first ones are taken.
        shuffled = _draw(batch.tokens, generator, like=sequence).argsort()
        order = shuffled[(2 * sequence + ~maskable)[shuffled].argsort(stable=True)]
        are_chosen = batch.positions < chosen[sequence]  # sequences kept their places: positions count within them
        if not fixed:
            places = order[are_chosen]
            return places, torch.ones_like(places, dtype=torch.bool)
        # How many are chosen only the device knows: as many places as there can be, the chosen ones first.
        most = min(batch.tokens, int(self.share * batch.tokens) + batch.sequences)
        first = are_chosen.logical_not().to(torch.uint8).argsort(stable=True)[:most]
        return order[first], are_chosen[first]


class MLM(Objective):
    """The mean of −log p(word) over the chosen words, given the text that is left (arXiv:1810.04805)."""

    def __init__(self, masking: Masking, *, name: str = "mlm") -> None:
        super().__init__()
        self.masking = masking
        self.name = name

    def forward(self, model: MaskedModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the loss under the objective's name, times the share of the step's rows that this batch holds."""
        total, words = self.of_words(model, batch)
        # A batch of special tokens alone has no word to ask for: its loss is 0.
        return {self.name: total / words.clamp(min=1) * batch.parts[self.name].share}

    def of_words(
        self, model: MaskedModel, batch: PackedBatch, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the sum of −log p over the chosen words, and how many these are."""
        masked = self.masking(batch, generator)
        losses = F.cross_entropy(model(masked.batch, masked.places), masked.labels, reduction="none")
        return torch.where(masked.chosen, losses, 0.0).sum(), masked.chosen.sum()


def _draw(count: int, generator: torch.Generator | None, *, like: Tensor) -> Tensor:
    """Draw numbers from 0 to below 1."""
    return torch.rand(count, generator=generator, device=like.device)
