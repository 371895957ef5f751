"""The Hugging Face Hub: names of repositories, files fetched into its cache, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from logging import LogRecord
from pathlib import Path

from palbert.errors import LONGEST_REASON, EncoderError, HubError, HubRefusalError, PalbertError, first_line

HUB_ID = re.compile(r"(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?")
"""`name` or `owner/name`, and a branch, tag or commit after an @."""
LOGIN = "hf auth login"
EXPECTED = frozenset({
    "OfflineModeIsEnabled", "LocalTokenNotFoundError", "HfHubHTTPError", "ConnectError", "ConnectionError",
    "TransportError", "TimeoutException", "OSError",
})  # fmt: skip
"""Classes of errors that are not bugs: of the Hub, of the network, and of the disk."""


@dataclass(frozen=True)
class HubId:
    """A repository of the Hub, at a revision if one is given."""

    repository: str
    revision: str | None = None

    @classmethod
    def parse(cls, name: str) -> HubId | None:
        """Read `name`, `owner/name` or one of them with `@revision`; None for anything else."""
        found = HUB_ID.fullmatch(name)
        if found is None or name.startswith((".", "~")):
            return None
        return cls(found["repository"], found["revision"])

    def __str__(self) -> str:
        return self.repository if self.revision is None else f"{self.repository}@{self.revision}"


def fetch(
    hub_id: HubId, files: Sequence[str], *, what: str = "Encoder", raises: type[PalbertError] = EncoderError
) -> Path:
    """Return the folder of a repository in the Hub's cache, with those of the files that the repository has.

    Without a network, what was fetched before is found in the cache.

    Args:
        hub_id: The repository.
        files: The files that are fetched, and no others; they may be patterns.
        what: What the repository should hold, as a message calls it.
        raises: The error if it cannot be fetched.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import logging

    logging.get_logger("huggingface_hub._snapshot_download").addFilter(_not_about_patterns)
    download = partial(snapshot_download, hub_id.repository, revision=hub_id.revision, allow_patterns=list(files))
    try:
        return Path(download())
    except Exception as error:  # the classes behind these differ between versions and HTTP libraries
        try:  # offline, some versions find a commit in the cache only with local_files_only
            return Path(download(local_files_only=True))
        except Exception:
            reason, hint = _reason(hub_id, error)
            raise raises(f"{what} '{hub_id}' cannot be fetched: {reason}.", hint=hint) from error


def _not_about_patterns(record: LogRecord) -> bool:
    """Whether a line of huggingface_hub's log is not about names that a repository lacks, which callers find out."""
    return not str(record.msg).startswith("No files matched")


def kinds_of(error: BaseException | None) -> set[str]:
    """Return the names of an error's classes; those of the Hub's errors stay while their modules move."""
    return {kind.__name__ for kind in type(error).__mro__}


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error is about, if it is about one."""
    found = getattr(getattr(error, "response", None), "status_code", None)
    return found if isinstance(found, int) else None


def _reason(hub_id: HubId, error: Exception) -> tuple[str, str]:
    """Return in one line why the Hub did not return the files, and what to do."""
    kinds, causes = kinds_of(error), kinds_of(error.__cause__)
    if "GatedRepoError" in kinds:
        return "it is gated", f"Ask for access on its page, then: {LOGIN}"
    if "RepositoryNotFoundError" in kinds or "HFValidationError" in kinds:
        return (
            "the Hub has no such model, or it is private",
            f"Is the name right, or is it a folder? For a private model: {LOGIN}",
        )
    if "RevisionNotFoundError" in kinds:
        return f"it has no revision '{hub_id.revision}'", "A revision is a branch, a tag or a commit."
    if status_of(error) in (401, 403):
        return (
            "the Hub refuses access to it, or does not accept the token",
            f"Log in with an account that may read it: {LOGIN}",
        )
    if "OfflineModeIsEnabled" in kinds | causes:
        return "HF_HUB_OFFLINE is set and it is not in the cache", "Fetch it once with the network on."
    return (
        f"the Hub cannot be reached and it is not in the cache ({type(error).__name__})",
        "Is the network on? A local folder with its files works as well.",
    )


@contextmanager
def push_errors(repository: str) -> Iterator[None]:
    """Raise HubError for what the Hub or the network refuses while something is sent, with what to do."""
    try:
        yield
    except PalbertError:
        raise
    except Exception as error:
        chain = list(_chain(error))
        kinds = set().union(*map(kinds_of, chain))
        status = next(filter(None, map(status_of, chain)), None)
        if status is None and not kinds & EXPECTED:
            raise
        raise _push_error(repository, status, kinds, error) from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _push_error(repository: str, status: int | None, kinds: set[str], error: Exception) -> HubError:
    if status == 401 or "LocalTokenNotFoundError" in kinds:
        return HubRefusalError(
            f"{repository}: the Hub does not know you: no token was given, or it is not valid any more (401).",
            hint=f"Log in: {LOGIN}. On other machines, set HF_TOKEN.",
        )
    if status == 403:
        return HubRefusalError(
            f"{repository}: your token may not write there (403).",
            hint=f"Take a token with the right to write, and an owner that you may write for: {LOGIN}",
        )
    if status in (409, 412):
        return HubError(
            f"{repository}: somebody else has changed it in the meantime ({status}); nothing was written.",
            hint="Repeat the command.",
        )
    if "OfflineModeIsEnabled" in kinds:
        return HubError(f"{repository}: HF_HUB_OFFLINE is set.", hint="Unset it to send something.")
    if status is None:
        return HubError(
            f"{repository}: the Hub cannot be reached ({type(error).__name__}: {first_line(error)}).",
            hint="Is the network on, and is HF_ENDPOINT right if it is set?",
        )
    said = " ".join(str(error).split()).rstrip(".")[:LONGEST_REASON]
    if status == 400:
        return HubRefusalError(
            f"{repository}: the Hub does not accept it (400): {said}.", hint="Correct the model card."
        )
    return HubError(f"{repository}: the Hub refuses it ({status}): {said}.", hint="Repeat the command later.")
