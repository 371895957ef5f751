"""Runs of the Hub: which files a pushed run has there, and how a name becomes a folder with them."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from palbert.build import is_encoder
from palbert.errors import CheckpointError
from palbert.inference.decisions import FILE as DECISIONS
from palbert.model.pretrained import resolve_encoder
from palbert.runtime.checksums import RECORD, check_folder, link_file, read_record
from palbert.runtime.files import AnyPath, new_folder
from palbert.runtime.hub import HubId, fetch
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint import MODEL_FILES

PREFIX = "hf:"
"""Marks a name that is looked up on the Hub, whatever folders are here."""
OWN_FOLDER = "runs"
"""Where runs are written unless told otherwise: `runs/demo` is never looked up on the Hub."""
OWNED = re.compile(r"[^/]+/[^/@]+(@.+)?")
CHECKPOINT = "checkpoints/best"
"""The only checkpoint that a run has on the Hub."""
DESCRIPTIONS = ("recipe.toml", "report.json")
CHECKPOINT_FILES = (*MODEL_FILES, DECISIONS, RECORD)
RUN_FILES = (RECORD, *DESCRIPTIONS, *(f"{CHECKPOINT}/{name}" for name in CHECKPOINT_FILES))
"""All that is fetched of a run: none of it is code, and none of it is a pickle."""

log = logging.getLogger(__name__)


def locate(run: AnyPath) -> Path:
    """Return the folder of a run or encoder; one that is not on this machine is fetched from the Hub.

    Args:
        run: A run folder, an encoder, or `owner/name` of the Hub with an optional `@revision`. A folder here wins, and
            so does one whose parent is here, which would otherwise be a typing error away from a stranger's run;
            `hf:owner/name` is looked up on the Hub in any case.

    Raises:
        CheckpointError: The Hub has no such run, or its files are not those that were pushed.
    """
    hub_id = hub_id_of(run)
    if hub_id is None:
        return Path(run)
    folder = fetch(hub_id, RUN_FILES, what="Run", raises=CheckpointError)
    if not (folder / CHECKPOINT / "palbert.json").is_file():
        encoder = resolve_encoder(str(hub_id))
        if not is_encoder(encoder):
            raise CheckpointError(
                f"{hub_id}: holds neither a run of palbert nor an encoder.", hint="palbert push puts runs there."
            )
        return encoder
    _check(hub_id, folder)
    return folder


def hub_id_of(run: AnyPath) -> HubId | None:
    """Return the repository that a name stands for; None if it stands for something on this machine."""
    name = Path(run).as_posix() if not isinstance(run, str) else run
    explicit = name.startswith(PREFIX)
    name = name.removeprefix(PREFIX)
    hub_id = HubId.parse(name) if OWNED.fullmatch(name) else None
    if explicit:
        if hub_id is None:
            raise CheckpointError(f"'{run}': expected {PREFIX}owner/name or {PREFIX}owner/name@revision.")
        return hub_id
    owner = Path(name).parent
    is_here = Path(name).exists() or owner.is_dir() or owner.name == OWN_FOLDER or is_encoder(name)
    return None if is_here else hub_id


def _check(hub_id: HubId, folder: Path) -> None:
    """Raise CheckpointError unless all files of a fetched run are recorded, there, and as recorded."""
    best = folder / CHECKPOINT
    for place, names in ((folder, DESCRIPTIONS), (best, MODEL_FILES)):
        record = read_record(place)
        if missing := [name for name in names if name not in (record or {})]:
            raise CheckpointError(
                f"{hub_id}: its {RECORD} does not list {', '.join(missing)}, so nothing says whether it is damaged.",
                hint="Only runs that palbert push has sent can be loaded.",
            )
        try:
            check_folder(place)
        except CheckpointError as error:
            raise CheckpointError(
                f"{hub_id}: {error.message}",
                hint=f"Fetch it again: remove {folder.parents[1]} first. If it stays so, ask its owner.",
            ) from error


def local_copy(run: AnyPath) -> Path:
    """Return a run folder to write into: the given one, or for a run of the Hub a copy of it in `runs`.

    The copy shares its files with the Hub's cache where the file system has hard links, and is made once per commit.
    """
    hub_id = hub_id_of(run)
    if hub_id is None:
        return Path(run)
    source = locate(run)
    if is_encoder(source):
        raise CheckpointError(f"{hub_id}: is an encoder, which has no tasks.", hint="Name a run.")
    target = Path(OWN_FOLDER) / f"{hub_id.repository.replace('/', '--')}-{source.name[:8]}"
    if not RunFolder(target).exists:
        with new_folder(target, replace=False) as folder:
            for name in RUN_FILES:
                if (source / name).is_file():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    link_file((source / name).resolve(), folder / name)
            RunFolder(folder).claim()
    log.info("%s is in %s", hub_id, target)
    return target
