"""Damaged encoder folders are refused with a PalbertError, or give what transformers computes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.unit.model.encoder_mutations import KINDS, TEXTS, make_folder, mutate

from palbert.build.alone import open_encoder
from palbert.build.machine import Machine
from palbert.data.collate import Portion, collate
from palbert.errors import PalbertError

CASES = 75
"""Folders of each kind."""


Results = list[tuple[list[int], torch.Tensor]]
"""The ids and the hidden states of each text."""


def compute(folder: Path) -> Results | None:
    """Return the ids and the hidden states of some texts; None if the folder is refused."""
    try:
        opened = open_encoder(str(folder), Machine(torch.device("cpu"), "fp32"))
    except PalbertError:
        return None
    tokens, length = (opened.tokenizer(TEXTS),), opened.description["max_length"]
    found = []
    for number in range(len(TEXTS)):
        batch = collate([Portion("a", "a", tokens, torch.tensor([number]).numpy(), length)], opened.tokenizer.template)
        with torch.no_grad():
            found.append((batch.ids.tolist(), opened.model.encoder(batch)))
    return found


def reference(folder: Path) -> tuple[Any, Any]:
    """Open a folder with transformers: the model and the tokenizer."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    return model.float().eval(), transformers.AutoTokenizer.from_pretrained(folder)


def difference(found: Results, folder: Path) -> str | None:
    """Return how the results of an accepted folder differ from those of transformers, None if they do not."""
    model, tokenizer = reference(folder)
    for text, (ids, hidden) in zip(TEXTS, found, strict=True):
        expected = tokenizer(text, truncation=True, max_length=len(ids))["input_ids"]
        if ids != expected:
            return f"{text!r}: ids {ids} and not {expected}"
        with torch.no_grad():
            other = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        if not torch.allclose(hidden, other, atol=1e-4, rtol=1e-3, equal_nan=True):
            return f"{text!r}: hidden states differ"
    return None


def judge(found: Results, folder: Path, done: str, original: Results) -> str | None:
    """Return what is wrong with the results of an accepted folder, None if nothing is."""
    behind_prefix = done.startswith("weights: prefix")  # there, transformers draws new weights
    try:
        problem = "" if behind_prefix else difference(found, folder)
    except Exception:  # transformers refuses the folder: then the damage must not matter
        problem = ""
    if problem != "":
        return problem
    same = all(ids == wanted and torch.equal(hidden, other)
               for (ids, hidden), (wanted, other) in zip(found, original, strict=True))  # fmt: skip
    return None if same else "transformers refuses it, and the results differ from those of the sound folder"


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_folders_are_refused_or_equal_transformers(kind: str, tmp_path: Path) -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    sound = make_folder(tmp_path / "sound", kind)
    original = compute(sound)
    assert original is not None and difference(original, sound) is None
    accepted = 0
    for seed in range(CASES):
        folder = Path(shutil.copytree(sound, tmp_path / str(seed)))
        done = mutate(folder, seed)
        found = compute(folder)
        if found is not None:
            accepted += 1
            assert judge(found, folder, done, original) is None, (seed, done)
    assert 0 < accepted < CASES
