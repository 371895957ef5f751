"""Run files: the names of all that palbert writes into the folders of a run, and what else lies there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from palbert.runtime.files import is_temporary

CHECKPOINT = r"(model|optimizer|random|objective|weights)\.safetensors|(palbert|tokenizer|trainer|decisions)\.json"
REPORT = r"report(-(train|dev|test))?\.(json|html)"
PREDICTIONS = r"predictions/[^/]+-(train|dev|test)\.csv"
SUBMISSION = r"submission/(predictions/)?[^/]+\.csv"
RECORDS = r"(recipe\.toml|(metrics|non-finite|spikes)\.jsonl|(baselines|trackers|folds)\.json|\.palbert-run\.json)"
ENCODER = (
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json|(vocab|merges)\.txt"
    r"|sentencepiece\.bpe\.model|model\.safetensors|palbert\.sha256"
)
INSIDE = (
    rf"checkpoints/(best|best-[^/]+|last|previous)/({CHECKPOINT}|palbert\.sha256|{SUBMISSION})",
    r"checkpoints/\.(best|best-[^/]+|last|previous)\.[^/]+/.+",  # half-written
    PREDICTIONS,
    SUBMISSION,
    r"tensorboard/(.+/)?events\.out\.tfevents\.[^/]+",
    rf"evaluations/[^/]+/({REPORT}|{PREDICTIONS})",
    r"audits/bias/(bias\.(json|html)|swaps\.csv|palbert\.sha256)",
)
WRITTEN = re.compile(rf"(pretrained/)?({'|'.join(INSIDE)})|pretrained/({ENCODER}|{REPORT}|{RECORDS})")
"""Paths, from the run folder, of what palbert writes into the run's folders."""
LEFT_BY_SYSTEMS = (".DS_Store", "Thumbs.db")


def foreign_files(run: Path, folders: list[Path]) -> Iterator[Path]:
    """Yield what somebody else has put into folders of a run: other files, and links in place of files and folders."""
    for folder in folders:
        if folder.is_symlink() or folder.is_file():
            yield folder
            continue
        for place, below, files in os.walk(folder):  # which does not follow links
            links = [name for name in below if Path(place, name).is_symlink()]
            for path in (Path(place, name) for name in sorted([*files, *links])):
                if path.is_symlink() or not _is_written(path.relative_to(run)):
                    yield path


def _is_written(path: Path) -> bool:
    if path.name in LEFT_BY_SYSTEMS or any(map(is_temporary, path.parts)):
        return True
    return WRITTEN.fullmatch(path.as_posix()) is not None
