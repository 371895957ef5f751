"""Vectors: texts as the mean of an encoder's outputs, without any task's layers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palbert.data.collate import Portion, collate, sequence_lengths
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import Template
from palbert.inference.evaluator import TOKENS_PER_BATCH, by_length
from palbert.model.encoder import Encoder
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Mean
from palbert.runtime.progress import bar

Vectors = NDArray[np.float32]
NAME = "vectors"


class MeanVectors:
    """Turn rows of tokens into mean vectors, each text on its own.

    Args:
        encoder: The encoder; its dropout is off while it computes.
        template: Puts special tokens around texts.
        device: Where the encoder is.
        arithmetic: The context of forward passes.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        template: Template,
        device: torch.device,
        arithmetic: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.model = MultiTaskModel(encoder, heads={}, poolings={NAME: Mean(encoder.config.hidden_size)})
        self.template = template
        self.device = device
        self.arithmetic = arithmetic

    def __call__(self, tokens: tuple[Ragged, ...], *, max_length: int, title: str) -> tuple[Vectors, ...]:
        """Return one array per text column, (rows, hidden)."""
        was_training = self.model.encoder.training
        self.model.eval()
        with torch.inference_mode(), bar(title, total=len(tokens) * len(tokens[0])) as line:
            vectors = tuple(self._column(column, max_length, line) for column in tokens)
        self.model.train(was_training)
        return vectors

    def _column(self, column: Ragged, max_length: int, line: Any) -> Vectors:
        """Return the vectors of one text column; texts of similar length share a batch."""
        lengths = sequence_lengths((column,), self.template, max_length=max_length, siamese=False)
        found = np.empty((len(column), self.model.encoder.config.hidden_size), dtype=np.float32)
        for chosen in by_length(lengths, TOKENS_PER_BATCH[self.device.type]):
            portion = Portion(NAME, NAME, (column,), chosen, max_length)
            batch = collate([portion], self.template).to(self.device)
            with self.arithmetic():
                found[chosen] = self.model.vectors(batch)[NAME].cpu().numpy()
            line.advance(len(chosen))
        return found
