"""Export: write a run, or its encoder, as a folder that other libraries load."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from palbert import __version__
from palbert.build import Machine, is_encoder, open_checkpoint, open_encoder
from palbert.errors import DataError, did_you_mean
from palbert.registry.trust import trusting
from palbert.reporting.display import Table
from palbert.runtime.files import new_folder
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.exports import FORMS, Checked, Form, Source, Wanted, form_of
from palbert.verbs.exports.export_folder import record_export, refuse_to_replace_export
from palbert.verbs.exports.form import Precision
from palbert.verbs.hub_run import locate

FormName = Literal["onnx", "transformers", "sentence-transformers", "cross-encoder"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Exported:
    """A folder that was written, and whether the library gives the same numbers with it."""

    folder: Path
    form: str
    """What it was exported to."""
    content: str
    """What is in it, in a few words."""
    pooling: str
    """The pooling in the folder; for transformers, which leaves it to its users, the one of the check; "" for whole
    models."""
    difference: float | None
    """The largest difference between a number of the library and palbert's; None if not checked."""
    lines: tuple[str, ...] = ()
    """What the check found, for people."""

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        checked = self.lines or ("Not compared with palbert.",)
        return Table(("exported to", "form", "content"), [(str(self.folder), self.form, self.content)], checked)


def export(
    run: str | PathLike[str],
    *,
    out: str | PathLike[str],
    to: FormName = "sentence-transformers",
    checkpoint: str | None = None,
    task: str | Sequence[str] | None = None,
    pooling: Literal["mean", "cls"] | None = None,
    without_adapters: bool = False,
    precision: Precision = "fp32",
    check: bool = True,
    force: bool = False,
    trust: bool = False,
) -> Exported:
    """Write a run, or its encoder, as a folder that another library loads.

    Args:
        run: The run folder, or an encoder.
        out: The folder to write.
        to: "onnx": a graph with the heads of all tasks, and a script that answers with it. "transformers": the encoder,
            or with `task` the whole model of a task. "sentence-transformers": the encoder. "cross-encoder": the whole
            model of a task on pairs, for sentence-transformers.
        checkpoint: "best", "last" or "best-<task>"; the best unless given.
        task: The task or tasks in a graph, all unless given; the task of a whole model. For an encoder, the task whose
            LoRA is merged into the weights, where tasks have their own.
        pooling: For an encoder, how token states become one vector: the one that all tasks have, or else "mean", unless
            given. A folder for transformers has none; it is checked with this one.
        without_adapters: Export the encoder without the adapters that it was trained with.
        precision: For a graph, "fp32" or "int8".
        check: Load the folder with the library, if it is installed, and compare numbers before it gets its name.
        force: Replace a folder that an export has written, and in which nobody else has put files.
        trust: Whether code from outside palbert that the run names may be imported.

    Raises:
        DataError: The form cannot hold this model.
        EncoderError: The library gives other numbers; nothing is written then.
    """
    if to not in FORMS:
        raise DataError(f"Cannot export to '{to}'.", hint=did_you_mean(to, FORMS))
    refuse_to_replace_export(Path(out), force=force)
    with trusting(trust):
        source = _open(run, checkpoint)
    tasks = (task,) if isinstance(task, str) else tuple(task or ())
    wanted = Wanted(tasks, pooling, without_adapters, precision)
    form = form_of(to, wanted)(source, wanted)
    checked = _write(form, Path(out), check=check, force=force)
    difference, lines = (None, ()) if checked is None else (checked.difference, checked.lines)
    return Exported(Path(out), to, form.content, form.pooling, difference, lines)


def _write(form: Form, out: Path, *, check: bool, force: bool) -> Checked | None:
    """Write and check a folder, which then gets its name."""
    with new_folder(out, replace=force) as folder:
        form.write(folder)
        origin = {"palbert": __version__, "from": str(form.source.place), "to": form.name}
        record_export(folder, {**origin, **form.origin()})
        checked = form.check(folder) if check else None
    if check and checked is None:
        log.warning("Not checked: %s is not installed.", form.library)
    return checked


def _open(run: str | PathLike[str], checkpoint: str | None) -> Source:
    """Open a run or an encoder."""
    machine = Machine.of("cpu", "fp32")
    found = locate(run)
    if is_encoder(found):
        return Source(found, open_encoder(str(found), machine), machine)
    folder = RunFolder(found)
    place = folder.checkpoint(checkpoint)
    return Source(place.resolve(), open_checkpoint(place, machine), machine, folder)
