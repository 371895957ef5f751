"""Hub data sets: the files of one split, downloaded."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from palbert.errors import DataError, first_line


def hub_files(path: str, suffixes: Sequence[str]) -> list[Path]:
    """Download the files of one split of `hf:owner/name[/config]:split` that end with one of the suffixes."""
    name, separator, split = path.removeprefix("hf:").partition(":")
    owner, _, rest = name.partition("/")
    repository, _, config = rest.partition("/")
    if not (owner and repository and separator and split):
        raise DataError(f"{path}: expected hf:owner/name:split or hf:owner/name/config:split.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    folder = f"{config}/" if config else ""
    patterns = [f"{folder}*{split}*{suffix}" for suffix in suffixes]
    try:
        root = Path(snapshot_download(f"{owner}/{repository}", repo_type="dataset", allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise DataError(
            f"{path}: cannot be fetched from the Hub: {first_line(error)}.",
            hint="Check the name and the connection, or give the files by path.",
        ) from error
    files = [file for file in sorted(root.rglob("*")) if file.is_file()]
    found = [
        file
        for file in files
        if any(fnmatch.fnmatch(file.relative_to(root).as_posix(), pattern) for pattern in patterns)
    ]
    if not found:
        names = ", ".join(file.relative_to(root).as_posix() for file in files[:8]) or "nothing"
        raise DataError(f"{path}: no {', '.join(suffixes)} file of split '{split}'; found {names}.")
    configs = sorted({file.relative_to(root).parent.as_posix() for file in found})
    if len(configs) > 1:
        raise DataError(
            f"{path}: the data set has several configurations: {', '.join(configs)}.",
            hint=f"Name one: hf:{owner}/{repository}/{configs[0]}:{split}",
        )
    return found
