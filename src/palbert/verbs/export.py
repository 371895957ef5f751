"""Export: write the encoder of a run as a folder that other libraries load."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from palbert import __version__
from palbert.build import Machine, OpenedCheckpoint, build_inference, is_encoder, open_checkpoint, open_encoder
from palbert.build.exporting import (
    POOLINGS,
    adapter_to_merge,
    common_pooling,
    merge_adapter,
    write_encoder,
    write_sentence_modules,
)
from palbert.errors import DataError, EncoderError, RunFolderError
from palbert.inference.evaluator import Packing, refuse_broken
from palbert.inference.questions import PooledStates
from palbert.model.multitask import MultiTaskModel
from palbert.registry import POOLINGS as POOLING_CLASSES
from palbert.registry.trust import trusting
from palbert.reporting.display import Table, facts_table
from palbert.runtime.checksums import RECORD, read_record, record_folder
from palbert.runtime.files import new_folder
from palbert.runtime.run_files import LEFT_BY_SYSTEMS
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.export_check import TEXTS, vectors_of
from palbert.verbs.hub_run import locate

Form = Literal["transformers", "sentence-transformers"]
FORMS = get_args(Form)
TOLERANCE = 1e-5
"""How far the vectors of the library may be from palbert's."""
ORIGIN = "palbert-export.json"
"""The file that says what a folder was exported from."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Exported:
    """A folder that was written, and whether the library gives the same vectors with it."""

    folder: Path
    form: Form
    pooling: str
    """The pooling in the folder; for transformers, which leaves it to its users, the one of the check."""
    difference: float | None
    """The largest difference between a number in the library's vectors and in palbert's; None if not checked."""

    def table(self) -> Table:
        """Return what was written."""
        checked = "not compared" if self.difference is None else f"the same up to {self.difference:.1e}"
        facts = {"folder": self.folder, "for": self.form, "pooling": self.pooling, "vectors": checked}
        return facts_table(facts)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def export(
    run: str | PathLike[str],
    *,
    out: str | PathLike[str],
    to: Form = "sentence-transformers",
    checkpoint: str | None = None,
    pooling: Literal["mean", "cls"] | None = None,
    task: str | None = None,
    without_adapters: bool = False,
    check: bool = True,
    force: bool = False,
    trust: bool = False,
) -> Exported:
    """Write the encoder of a run as a folder that transformers or sentence-transformers loads.

    Args:
        run: The run folder, or an encoder.
        out: The folder to write.
        to: The library.
        checkpoint: "best", "last" or "best-<task>"; the best unless given.
        pooling: How token states become one vector: the one that all tasks have, or else "mean", unless given. A
            folder for transformers has none; it is checked with this one.
        task: The task whose LoRA is merged into the weights, where tasks have their own.
        without_adapters: Export the encoder without the adapters that it was trained with.
        check: Load the folder with the library, if it is installed, and compare vectors before it gets its name.
        force: Replace a folder that an export has written, and in which nobody else has put files.
        trust: Whether code from outside palbert that the run names may be imported.

    Raises:
        DataError: The run's adapters cannot be merged.
        EncoderError: The library gives other vectors; nothing is written then.
    """
    _check_names(to, pooling)
    _refuse_to_replace(Path(out), force=force)
    with trusting(trust):
        source, opened, machine = _open(run, checkpoint)
    adapter = adapter_to_merge(opened, task=task, without_adapters=without_adapters)
    if without_adapters and opened.model.adapter_of:
        log.warning("The folder has the encoder without the adapters that its tasks were trained with.")
    chosen = pooling or (common_pooling(opened.tasks.values()) if to == "sentence-transformers" else "mean")
    length = _max_length(opened, task)
    expected = _vectors(opened, machine, adapter, pooling=chosen, length=length)
    if adapter is not None:
        merge_adapter(opened.model, adapter)
    with new_folder(Path(out), replace=force) as folder:
        _write(folder, opened, to, pooling=chosen, length=length)
        _record(folder, {"palbert": __version__, "from": str(source), "adapter": adapter, "pooling": chosen})
        difference = _difference(to, folder, expected, pooling=chosen, length=length) if check else None
    return Exported(Path(out), to, chosen, difference)


def _check_names(form: str, pooling: str | None) -> None:
    if form not in FORMS:
        raise DataError(f"Cannot export to '{form}'.", hint=f"There are: {', '.join(FORMS)}.")
    if pooling is not None and pooling not in POOLINGS:
        raise DataError(f"Cannot export the pooling '{pooling}'.", hint=f"There are: {', '.join(POOLINGS)}.")


def _open(run: str | PathLike[str], checkpoint: str | None) -> tuple[Path, OpenedCheckpoint, Machine]:
    """Open a run or an encoder; return where its weights are, too."""
    machine = Machine.of("cpu", "fp32")
    found = locate(run)
    if is_encoder(found):
        return found, open_encoder(str(found), machine), machine
    source = RunFolder(found).checkpoint(checkpoint)
    return source.resolve(), open_checkpoint(source, machine), machine


def _refuse_to_replace(folder: Path, *, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder}: expected a folder, found a file.", hint="Give another folder with --out.")
    if RunFolder(folder).exists or RunFolder(folder).checkpoints.exists():
        raise RunFolderError(f"{folder}: holds a run.", hint="Give another folder with --out.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if (foreign := _foreign_file(folder)) is not None:
        raise RunFolderError(
            f"{foreign}: palbert did not export this, and would remove it with the folder.",
            hint="Give another folder with --out, or remove this one yourself.",
        )
    if not force:
        raise RunFolderError(
            f"{folder}: holds an encoder already.", hint="Add --force to replace it, or give another --out."
        )


def _foreign_file(folder: Path) -> Path | None:
    """Return a file or link that an export has not written, as its record says; None where there is none."""
    record = read_record(folder) or {}
    known = {*record, RECORD} if ORIGIN in record else set()
    for place, below, files in os.walk(folder):  # which does not follow links
        links = [name for name in below if Path(place, name).is_symlink()]
        for path in sorted(Path(place, name) for name in [*files, *links]):
            is_own = path.relative_to(folder).as_posix() in known and not path.is_symlink()
            if not is_own and path.name not in LEFT_BY_SYSTEMS:
                return path
    return None


def _max_length(opened: OpenedCheckpoint, task: str | None) -> int:
    """Return the tokens that a text may have: as the task, or the task with the longest texts, has it."""
    if task is not None:
        return opened.tasks[task].max_length
    usual = opened.description.get("max_length", opened.model.encoder.config.max_length)
    return max((each.max_length for each in opened.tasks.values()), default=int(usual))


def _vectors(
    opened: OpenedCheckpoint, machine: Machine, adapter: str | None, *, pooling: str, length: int
) -> NDArray[np.float32]:
    """Return palbert's vectors of the texts of the check, with an adapter that is not merged yet."""
    model, width = opened.model, opened.model.encoder.config.hidden_size
    if adapter is None:
        model = MultiTaskModel(model.encoder, heads={}, poolings={}).eval()
    inference = build_inference(model, tokenizer=opened.tokenizer, machine=machine)
    forward = inference.ask(PooledStates(model, POOLING_CLASSES[pooling](width)))
    tokens, packing = (opened.tokenizer(TEXTS),), Packing(adapter or "", length)
    found = inference.run(forward, tokens, packing, width=width, title="checking")
    vectors: NDArray[np.float32] = refuse_broken(found, "The vector").numpy()
    return vectors


def _write(folder: Path, opened: OpenedCheckpoint, to: Form, *, pooling: str, length: int) -> None:
    encoder = opened.model.encoder
    if to == "transformers":
        write_encoder(folder, encoder, opened.tokenizer, max_length=encoder.config.max_length)
        return
    write_encoder(folder, encoder, opened.tokenizer, max_length=length)
    write_sentence_modules(folder, hidden_size=encoder.config.hidden_size, max_length=length, pooling=pooling)


def _record(folder: Path, origin: Mapping[str, Any]) -> None:
    """Write what a folder was exported from, and the hashes of its files."""
    (folder / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
    record_folder(folder)


def _difference(to: Form, folder: Path, expected: NDArray[np.float32], *, pooling: str, length: int) -> float | None:
    """Return the largest difference between the library's vectors and palbert's; raise EncoderError if it is large."""
    found = vectors_of(to, folder, pooling=pooling, max_length=length)
    if found is None:
        log.warning("Not checked: %s is not installed.", to)
        return None
    difference = float(np.abs(found - expected).max()) if found.shape == expected.shape else float("inf")
    if not difference <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise EncoderError(
            f"{to} gives other vectors than palbert: they differ by up to {difference:.1e}. Nothing was written.",
            hint="This is a bug in palbert, or in the tokenizer's settings; --no-check writes the folder nevertheless.",
        )
    return difference
