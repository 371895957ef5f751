"""Check of an export: the library loads the folder, and gives the vectors that palbert gives."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
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
    try:
        with _quiet():
            if form == "sentence-transformers":
                return _sentence_vectors(folder)
            return _pooled_states(folder, pooling, max_length)
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
