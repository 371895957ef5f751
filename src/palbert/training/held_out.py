"""HeldOut: the masked-word loss on held-out texts, with the same words hidden every time."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from palbert.data.collate import Portion, collate, sequence_lengths
from palbert.data.corpus import Corpus
from palbert.data.tokenizer import Template
from palbert.inference.evaluator import TOKENS_PER_BATCH, by_length
from palbert.model.masked import MaskedModel
from palbert.objectives.mlm import MLM
from palbert.runtime.distributed import Ranks
from palbert.runtime.progress import track
from palbert.training.trainer import Evaluation

SPARSER = 4
"""Factor by which batches are smaller than in evaluation: each hidden word has scores for the whole vocabulary."""


class MaskedEvaluation(Evaluation):
    """The held-out loss; `overall` is 1 / perplexity, the geometric mean of the hidden words' probabilities."""

    def __str__(self) -> str:
        [scores] = self.tasks.values()
        return f"held-out loss {scores['loss']:.4f}, perplexity {scores['perplexity']:.2f}"


@dataclass(frozen=True)
class HeldOut:
    """Score a model on held-out texts."""

    objective: MLM
    corpus: Corpus
    template: Template
    max_length: int
    device: torch.device
    arithmetic: Callable[[], AbstractContextManager[Any]]
    seed: int
    """Chooses the hidden words, the same ones every time."""
    ranks: Ranks = field(default_factory=Ranks)
    """The processes that share the batches; all get the loss that one process computes."""

    def __call__(self, model: MaskedModel, *, epoch: float, step: int) -> Evaluation:
        """Return loss and perplexity."""
        loss = self._loss(model)
        scores = {"loss": loss, "perplexity": math.exp(min(loss, 700))}  # exp(710) overflows
        tasks = {self.objective.name: scores}
        return MaskedEvaluation(epoch=epoch, step=step, overall=math.exp(-loss), tasks=tasks)

    def _loss(self, model: MaskedModel) -> float:
        """Return the mean of −log p over all hidden words."""
        tokens, name = self.corpus.tokens, self.objective.name
        lengths = sequence_lengths(tokens, self.template, max_length=self.max_length, siamese=False)
        batches = by_length(lengths, TOKENS_PER_BATCH[self.device.type] // SPARSER)
        generator = torch.Generator(self.device).manual_seed(self.seed)
        sums = torch.zeros(len(batches), 2, dtype=torch.float64)  # the loss and the words of each batch
        was_training = model.training
        model.eval()
        with torch.inference_mode():
            for number, rows in enumerate(track(batches, description="held-out texts", total=len(batches))):
                batch = collate([Portion(name, name, tokens, rows, self.max_length)], self.template).to(self.device)
                masked = self.objective.masking(batch, generator)  # every process draws all masks
                if number % self.ranks.size == self.ranks.rank:
                    with self.arithmetic():
                        loss = self.objective.of_words(model, masked)
                    sums[number] = torch.stack([loss, masked.chosen.sum()])
        model.train(was_training)
        self.ranks.add_in_place(sums)
        total = words = 0.0
        for loss, count in sums.tolist():
            total, words = total + loss, words + count
        return total / max(1.0, words)
