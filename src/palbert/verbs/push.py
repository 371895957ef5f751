"""Push: send a run to the Hugging Face Hub, in one commit, with nothing private in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from palbert.errors import CheckpointError, DataError, HubError
from palbert.inference.decisions import FILE as DECISIONS
from palbert.recipe.load import dump_recipe
from palbert.recipe.public import public_names, public_recipe
from palbert.registry.trust import trusting
from palbert.reporting.card import check_card, check_licence
from palbert.reporting.display import Table, shown_bytes
from palbert.runtime.checksums import RECORD, check_folder, read_record
from palbert.runtime.files import AnyPath
from palbert.runtime.hub import HubId, push_errors
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint import MODEL_FILES, read_description
from palbert.verbs.card import Evaluated, card_of, evaluated
from palbert.verbs.hub_run import CHECKPOINT, RUN_FILES
from palbert.verbs.origin import public_description

CARD = "README.md"
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(?<![.-])/[A-Za-z0-9_][\w.-]*(?<![.-])")
LONGEST_NAME = 96
UNTOUCHED = (CARD, ".gitattributes", "LICENSE", "LICENSE.md", "LICENSE.txt")
"""Files that a repository may have before a run is pushed to it for the first time."""
SUMMARY = (
    "overall", "formula", "encoder", "seed", "tasks", "metrics", "intervals", "parameters", "device", "precision",
    "palbert", "split", "checkpoint", "epoch", "step", "seconds", "finished_early", "baselines", "rows",
    "probabilities", "notes", "test",
)  # fmt: skip
"""The parts of report.json that are sent."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Pushed:
    """What was sent to the Hub, or would be."""

    repository: str
    private: bool
    checkpoint: str
    """The checkpoint of the run that is `checkpoints/best` on the Hub."""
    files: dict[str, int]
    """The size of each file, in bytes."""
    card: str
    """The model card."""
    address: str | None
    """Where the commit is; None if nothing was sent."""

    @property
    def sent(self) -> bool:
        """Whether the files were sent."""
        return self.address is not None

    def table(self) -> Table:
        """Return the files with their sizes."""
        rows = [(name, _size(size)) for name, size in self.files.items()]
        total = _size(sum(self.files.values()))
        kind = "private" if self.private else "public"
        said = (
            f"Sent to {self.address}" if self.sent else f"Nothing was sent. It would go to {self.repository}, {kind}."
        )
        return Table(("file", "size"), [*rows, ("all", total)], (f"Checkpoint: {self.checkpoint}", said))

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def push(
    run: AnyPath,
    repository: str,
    *,
    yes: bool = False,
    private: bool = False,
    checkpoint: str | None = None,
    licence: str | None = None,
    card: AnyPath | None = None,
    trust: bool = False,
) -> Pushed:
    """Send a run to the Hugging Face Hub, where `palbert.load("owner/name")` finds it; without `yes`, send nothing.

    What is sent are the checkpoint as `checkpoints/best`, the model card, and recipe.toml and report.json without the
    folders of this machine: no data, predictions, logs, keys or state of the training. All of it is one commit. The
    token is that of `hf auth login` or of HF_TOKEN.

    Args:
        run: The run folder.
        repository: `owner/name`, which is made if it is not there.
        yes: Send it; otherwise only return what would be sent.
        private: Make the repository private.
        checkpoint: "best", "last" or "best-<task>", which must have been evaluated; the best unless given.
        licence: The identifier of the model's licence, such as "apache-2.0".
        card: A model card of your own, such as an edited one of `palbert.card`.
        trust: Whether code from outside palbert that the run names may be imported.

    Raises:
        CheckpointError: A file of the checkpoint is not the one that was written.
        HubError: The Hub refuses it or cannot be reached; nothing has changed there but that the repository may exist.
    """
    hub_id = _repository(repository)
    check_licence(licence)
    if card is not None and licence is not None:
        raise DataError("A card of your own says under which licence the model is.", hint="Leave out --licence.")
    folder = RunFolder(Path(run))
    folder.checkpoint(checkpoint)  # before the lock, which would make a folder that is not there
    with trusting(trust), folder.locked("pushing"):
        found = evaluated(run, checkpoint)
        text = card_of(found, name=repository, licence=licence) if card is None else _own_card(Path(card))
        files = _files(found, text)
        sizes = {name: _length(content) for name, content in files.items()}
        address = _send(hub_id.repository, files, private=private) if yes else None
    return Pushed(hub_id.repository, private, found.checkpoint.name, sizes, text, address)


def _repository(name: str) -> HubId:
    hub_id = HubId.parse(name)
    if hub_id is None or not REPOSITORY.fullmatch(name) or len(name) > LONGEST_NAME or "--" in name or ".." in name:
        raise DataError(
            f"'{name}' cannot be a repository of the Hub: expected owner/name with letters, digits, '-', '_' and '.'.",
            hint="Such as: palbert push RUN me/my-model",
        )
    return hub_id


def _own_card(file: Path) -> str:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{file}: cannot be read: {error}.", hint=f"Write one with: palbert card RUN --out {file}"
        ) from error
    check_card(text, str(file))
    return text


def _files(found: Evaluated, card: str) -> dict[str, Path | bytes]:
    """Return everything that is sent by its name on the Hub; raise CheckpointError for damaged files."""
    record = read_record(found.checkpoint) or {}
    if missing := [name for name in MODEL_FILES if name not in record]:
        raise CheckpointError(
            f"{found.checkpoint}: {RECORD} does not list {', '.join(missing)}, so nothing says whether it is damaged.",
            hint="To record files that you trust, run there: sha256sum *.json *.safetensors > " + RECORD,
        )
    check_folder(found.checkpoint)
    model: dict[str, Path | bytes] = {name: found.checkpoint / name for name in MODEL_FILES}
    if DECISIONS in record:
        model[DECISIONS] = found.checkpoint / DECISIONS
    description = read_description(found.checkpoint)
    if (public := public_description(description)) != description:
        model["palbert.json"] = _json(public)
        record = {**record, "palbert.json": sha256(_json(public)).hexdigest()}
    described = {
        "recipe.toml": dump_recipe(public_recipe(found.recipe)).encode(),
        "report.json": _json(_public_summary(found)),
    }
    return {
        CARD: card.encode(),
        **described,
        RECORD: _record({name: sha256(content).hexdigest() for name, content in described.items()}),
        **{f"{CHECKPOINT}/{name}": content for name, content in model.items()},
        f"{CHECKPOINT}/{RECORD}": _record({name: record[name] for name in model}),
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _record(hashes: Mapping[str, str]) -> bytes:
    return "".join(f"{found}  {name}\n" for name, found in hashes.items()).encode()


def _public_summary(found: Evaluated) -> dict[str, Any]:
    """Return the content of report.json without the folders of this machine."""
    names = public_names(found.recipe)

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renamed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [renamed(item) for item in value]
        if isinstance(value, str):
            for path, name in names.items():
                value = value.replace(path, name)
        return value

    return {key: renamed(found.summary[key]) for key in SUMMARY if key in found.summary}


def _send(repository: str, files: Mapping[str, Path | bytes], *, private: bool) -> str:
    """Make the repository if needed, and send all files in one commit; return the commit's address."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi()
    with push_errors(repository):
        api.create_repo(repository, private=private or None, exist_ok=True)
        info = api.model_info(repository)
        there = [file.rfilename for file in info.siblings or ()]
        _refuse_others(repository, there, private=private, is_private=bool(info.private))
        stale = [name for name in there if name in RUN_FILES and name not in files]
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            *(CommitOperationAdd(name, str(content) if isinstance(content, Path) else content)
              for name, content in files.items()),
            *(CommitOperationDelete(name) for name in stale),
        ]  # fmt: skip
        log.info("sending %d files to %s", len(files), repository)
        done = api.create_commit(repository, operations, commit_message="Add a run of palbert", parent_commit=info.sha)
    return str(done.commit_url)


def _refuse_others(repository: str, there: list[str], *, private: bool, is_private: bool) -> None:
    """Raise HubError for a repository that holds something else, or is public although a private one is wanted."""
    if private and not is_private:
        raise HubError(
            f"{repository}: exists already and is public.",
            hint="Make it private on its page first, or leave out --private.",
        )
    others = [name for name in there if name not in (*RUN_FILES, *UNTOUCHED)]
    if others and f"{CHECKPOINT}/palbert.json" not in there:
        raise HubError(
            f"{repository}: holds something else than a run of palbert: {', '.join(others[:5])}.",
            hint="Give another name.",
        )


def _length(content: Path | bytes) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _size(count: int) -> str:
    return f"{count:,} B" if count < 1 << 20 else shown_bytes(count)
