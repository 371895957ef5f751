"""Check of an export: the library loads the folder, and gives the vectors that palbert gives."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

TEXTS = [
    "A quiet little triumph.",
    "The dentist drilled the wrong tooth, apologised, and drilled the right one.",
    "Rain.",
    "",
    "Does the 7:40 train to Zürich stop in Basel? – Yes, and in Olten & Aarau too!",
    "one word after another " * 200,
]
"""Of several lengths, the last one longer than most encoders read."""

BATCH = 16
"""Rows that are padded together."""
LIBRARIES = ("transformers", "sentence_transformers")
Vectors = NDArray[np.float32]


def vectors_of(form: str, folder: Path, *, pooling: str, max_length: int) -> Vectors | None:
    """Return the vectors of `TEXTS` that a library gives with a folder; None if it is not installed.

    Args:
        form: "transformers" or "sentence-transformers".
        folder: The folder.
        pooling: "mean" or "cls"; sentence-transformers reads it from the folder.
        max_length: Tokens that a text may have; sentence-transformers reads it from the folder.
    """

    def ask() -> Vectors:
        if form == "sentence-transformers":
            return _sentence_vectors(folder)
        return _pooled_states(folder, pooling, max_length)

    return _if_installed(ask)


def logits_of(folder: Path, rows: Sequence[Any], *, trust: bool) -> Vectors | None:
    """Return the logits that transformers gives with a classifier's folder; None if it is not installed.

    Args:
        folder: The folder.
        rows: Texts, or pairs of texts.
        trust: Whether the folder's own model file is imported.
    """
    return _if_installed(lambda: _logits(folder, rows, trust))


def scores_of(folder: Path, pairs: Sequence[Any], *, trust: bool) -> Vectors | None:
    """Return the scores that sentence-transformers gives with a cross-encoder's folder, (pairs, outputs)."""
    return _if_installed(lambda: _scores(folder, pairs, trust))


def _if_installed(ask: Callable[[], Vectors]) -> Vectors | None:
    """Return what a library gives; None if it is not installed."""
    try:
        with _quiet():
            return ask()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in LIBRARIES:
            return None
        raise


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the messages of the libraries, such as that an unused pooler is new."""
    from transformers.utils import logging as messages

    former = {name: logging.getLogger(name).level for name in LIBRARIES}
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(logging.ERROR)
    had_bars = messages.is_progress_bar_enabled()
    messages.disable_progress_bar()
    try:
        yield
    finally:
        if had_bars:
            messages.enable_progress_bar()
        for name, level in former.items():
            logging.getLogger(name).setLevel(level)


def _sentence_vectors(folder: Path) -> Vectors:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return np.asarray(model.encode(TEXTS, show_progress_bar=False), dtype=np.float32)


def _pooled_states(folder: Path, pooling: str, max_length: int) -> Vectors:
    from transformers import AutoModel, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in TEXTS:
        batch = tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")
        with torch.inference_mode():
            states = model(**batch).last_hidden_state[0].float()
        rows.append((states[0] if pooling == "cls" else states.mean(dim=0)).numpy())
    return np.stack(rows)


def _logits(folder: Path, rows: Sequence[Any], trust: bool) -> Vectors:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=trust).eval()
    found = []
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        texts = [some] if isinstance(some[0], str) else [[row[side] for row in some] for side in (0, 1)]
        batch = tokenizer(*texts, truncation=True, padding=True, return_tensors="pt")
        with torch.inference_mode():
            found.append(model(**batch).logits.float().numpy())
    return np.concatenate(found)


def _scores(folder: Path, pairs: Sequence[Any], trust: bool) -> Vectors:
    from sentence_transformers import CrossEncoder

    model: Any = CrossEncoder(str(folder), device="cpu", trust_remote_code=trust)
    found = np.asarray(model.predict(list(pairs), batch_size=BATCH, show_progress_bar=False), dtype=np.float32)
    return found.reshape(len(pairs), -1)
