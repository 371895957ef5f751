"""Folders of an encoder: what transformers.AutoModel and SentenceTransformer load, with palbert's vectors."""

from __future__ import annotations

import logging
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.build import build_inference
from palbert.build.exporting import (
    POOLINGS,
    adapter_to_merge,
    common_pooling,
    merge_adapter,
    write_encoder,
    write_sentence_modules,
)
from palbert.errors import DataError
from palbert.inference.evaluator import Packing, refuse_broken
from palbert.inference.questions import PooledStates
from palbert.model.multitask import MultiTaskModel
from palbert.registry import POOLINGS as POOLING_CLASSES
from palbert.verbs.export_check import TEXTS, vectors_of
from palbert.verbs.exports.form import Checked, Form, Source, Wanted, compared

TOLERANCE = 1e-5
"""How far the vectors of the library may be from palbert's."""

log = logging.getLogger(__name__)


class EncoderForm(Form):
    """The encoder of a run, with an adapter that can be part of its weights merged into them."""

    takes = frozenset({"pooling", "without_adapters"})

    def __init__(self, source: Source, wanted: Wanted) -> None:
        super().__init__(source, wanted)
        if wanted.pooling is not None and wanted.pooling not in POOLINGS:
            raise DataError(f"Cannot export the pooling '{wanted.pooling}'.", hint=f"There are: {', '.join(POOLINGS)}.")
        if len(wanted.tasks) > 1:
            raise DataError(
                f"An encoder has one adapter at most, found the tasks {', '.join(wanted.tasks)}.",
                hint="Name one task, or take whole models with --to onnx.",
            )
        opened, self.task = source.opened, wanted.tasks[0] if wanted.tasks else None
        self.adapter = adapter_to_merge(opened, task=self.task, without_adapters=wanted.without_adapters)
        if wanted.without_adapters and opened.model.adapter_of:
            log.warning("The folder has the encoder without the adapters that its tasks were trained with.")
        self._pooling = wanted.pooling or self._usual_pooling()
        self.length = self._max_length()
        self.expected = self._vectors()
        if self.adapter is not None:
            merge_adapter(opened.model, self.adapter)

    @abstractmethod
    def _usual_pooling(self) -> str:
        """Return the pooling unless one is asked for."""

    @property
    def pooling(self) -> str:
        """The pooling in the folder; for transformers, which leaves it to its users, the one of the check."""
        return self._pooling

    @property
    def content(self) -> str:
        """Say which pooling it is."""
        return f"pooling {self.pooling}"

    def origin(self) -> dict[str, Any]:
        """Return the adapter and the pooling."""
        return {"adapter": self.adapter, "pooling": self.pooling}

    def check(self, folder: Path) -> Checked | None:
        """Compare vectors of a few texts."""
        found = vectors_of(self.name, folder, pooling=self.pooling, max_length=self.length)
        if found is None:
            return None
        difference = compared(self.library, "vectors", found, self.expected, tolerance=TOLERANCE)
        return Checked(difference, (f"{self.library} gives the same vectors as palbert, up to {difference:.1e}.",))

    def _max_length(self) -> int:
        """Return the tokens that a text may have: as the task, or the task with the longest texts, has it."""
        opened = self.source.opened
        if self.task is not None:
            return opened.tasks[self.task].max_length
        usual = opened.description.get("max_length", opened.model.encoder.config.max_length)
        return max((each.max_length for each in opened.tasks.values()), default=int(usual))

    def _vectors(self) -> NDArray[np.float32]:
        """Return palbert's vectors of the texts of the check, with an adapter that is not merged yet."""
        opened, machine = self.source.opened, self.source.machine
        model, width = opened.model, opened.model.encoder.config.hidden_size
        if self.adapter is None:
            model = MultiTaskModel(model.encoder, heads={}, poolings={}).eval()
        inference = build_inference(model, tokenizer=opened.tokenizer, machine=machine)
        forward = inference.ask(PooledStates(model, POOLING_CLASSES[self.pooling](width)))
        tokens, packing = (opened.tokenizer(TEXTS),), Packing(self.adapter or "", self.length)
        found = inference.run(forward, tokens, packing, width=width, title="checking")
        vectors: NDArray[np.float32] = refuse_broken(found, "The vector").numpy()
        return vectors


class TransformersForm(EncoderForm):
    """What `transformers.AutoModel` loads."""

    name = library = "transformers"

    def _usual_pooling(self) -> str:
        return "mean"

    def write(self, folder: Path) -> None:
        """Write the encoder; it may read as many tokens as it has positions."""
        encoder = self.source.opened.model.encoder
        write_encoder(folder, encoder, self.source.opened.tokenizer, max_length=encoder.config.max_length)


class SentenceTransformersForm(EncoderForm):
    """What `SentenceTransformer` loads."""

    name = library = "sentence-transformers"

    def _usual_pooling(self) -> str:
        return common_pooling(self.source.tasks.values())

    def write(self, folder: Path) -> None:
        """Write the encoder and the pooling."""
        encoder = self.source.opened.model.encoder
        write_encoder(folder, encoder, self.source.opened.tokenizer, max_length=self.length)
        write_sentence_modules(
            folder, hidden_size=encoder.config.hidden_size, max_length=self.length, pooling=self.pooling
        )
