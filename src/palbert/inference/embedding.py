"""Embedder: one vector per text, from the pooled token states of a model's encoder."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palbert.data.collate import count_truncated
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, did_you_mean
from palbert.inference.evaluator import Inference, Packing, refuse_broken
from palbert.inference.forward import Forward
from palbert.inference.questions import PooledStates
from palbert.model.pooling import Pooling
from palbert.registry import POOLINGS
from palbert.tasks.spec import Task

WITHOUT_WEIGHTS = ("cls", "mean", "pooler")
"""The poolings that need no training."""
log = logging.getLogger(__name__)


class Embedder:
    """Turns texts into vectors.

    Args:
        inference: A model and what it needs to answer.
        tokenizer: The model's tokenizer.
        tasks: The model's tasks; an encoder alone has none.
        max_length: Tokens per text where there is no task to say so.
    """

    def __init__(
        self, inference: Inference, *, tokenizer: TextTokenizer, tasks: Mapping[str, Task], max_length: int
    ) -> None:
        self.inference = inference
        self.tokenizer = tokenizer
        self.tasks = tasks
        self.max_length = max_length
        self._forwards: dict[str, Forward] = {}

    def __call__(self, texts: Sequence[str], *, pooling: str, normalise: bool, task: str | None) -> NDArray[np.float32]:
        """Return (texts, hidden); see `Predictor.embed`."""
        _check_texts(texts)
        packing, forward = self.packing(task), self.forward(pooling)
        width = self.inference.model.encoder.config.hidden_size
        if not len(texts):
            return np.zeros((0, width), dtype=np.float32)
        tokens = (self.tokenizer(texts),)
        cut = count_truncated(tokens, self.tokenizer.template, max_length=packing.max_length, siamese=False)
        if cut:
            log.warning("%d of %d texts were longer than %d tokens; only their beginning counts.",
                        cut, len(texts), packing.max_length)  # fmt: skip
        found = self.inference.run(forward, tokens, packing, width=width, title="embedding")
        vectors: NDArray[np.float32] = refuse_broken(found, "The vector").numpy()
        if normalise:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def packing(self, task: str | None) -> Packing:
        """Return how texts are packed; raise DataError for a model in which each task sees a text differently."""
        if task is not None and task not in self.tasks:
            raise DataError(f"Unknown task '{task}'.", hint=did_you_mean(task, self.tasks))
        adapter_of = self.inference.model.adapter_of
        if task is None and len({adapter_of.get(name) for name in self.tasks}) > 1:
            raise DataError(
                "Tasks of this model have adapters of their own, so a text has a different vector for each of them.",
                hint=f"Name the task: task=…, or --task. There are: {', '.join(self.tasks)}.",
            )
        if task is not None:
            return Packing(task, self.tasks[task].max_length)
        lengths = [each.max_length for each in self.tasks.values()]
        return Packing(next(iter(self.tasks), ""), max(lengths, default=self.max_length))

    def forward(self, name: str) -> Forward:
        """Return what computes vectors by a pooling; raise DataError if it is unknown or has trained weights."""
        if name not in self._forwards:
            model = self.inference.model
            if name not in POOLINGS:
                raise DataError(f"Unknown pooling '{name}'.", hint=did_you_mean(name, WITHOUT_WEIGHTS))
            pooling: Pooling = POOLINGS.find(name)(model.encoder.config.hidden_size)
            if any(True for _ in pooling.parameters()):
                raise DataError(
                    f"The pooling '{name}' has weights of its own.", hint=f"Take one of: {', '.join(WITHOUT_WEIGHTS)}."
                )
            if pooling.through_pooler and not model.encoder.config.pooler:
                raise DataError("This encoder has no pooler.", hint="Take the pooling mean or cls.")
            self._forwards[name] = self.inference.ask(PooledStates(model, pooling.to(self.inference.device)))
        return self._forwards[name]


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise DataError("Expected a list of texts, found one text.", hint=f"Write [{texts!r:.40}].")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"Expected a text per row; row {number} is {text!r:.60}.", hint="Embed each text alone.")
