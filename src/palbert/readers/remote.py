"""Remote files: what fsspec finds behind a URL, copied into palbert's cache and again when it has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from palbert.errors import DataError, PalbertError, RunFolderError, first_line
from palbert.runtime.files import cache_folder, new_file, write_text
from palbert.runtime.progress import Bar, bar

VERSION = ("blob_id", "checksum", "crc32", "created", "digest", "etag", "generation", "md5", "modified", "mtime", "sha",
           "updated", "version")  # fmt: skip
"""Parts of the names under which file systems say which version a file has, in lower case."""
AT_A_TIME = 8
"""Files that are copied at a time."""


def is_remote(path: str) -> bool:
    """Whether a path names something that is not a local file: a URL or a Hub data set."""
    return path.startswith("hf:") or "://" in path


def remote_files(url: str) -> list[Path]:
    """Return local copies of the file behind a URL, or of all files that fit a pattern with `*`, by their names.

    Raises:
        DataError: There is no such file, its driver is not installed, or it cannot be copied.
    """
    import fsspec  # torch and huggingface_hub need it
    from fsspec.implementations.local import LocalFileSystem

    with _explained(url):
        system, path = fsspec.core.url_to_fs(url)
        system.invalidate_cache()
        found = {path: url}
        if "*" in path or "[" in path:
            found = {each: system.unstrip_protocol(each) for each in sorted(system.glob(path))}
    if not found:
        raise DataError(f"{url}: no file fits this pattern.")
    if isinstance(system, LocalFileSystem):
        missing = [path for path in found if not Path(path).is_file()]
        if missing:
            raise DataError(f"No such file: {missing[0]}")
        return [Path(path) for path in found]
    with bar(f"copying from {url.partition(':')[0]}", total=len(found)) as line, ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(lambda path: _copied(system, path, found[path], line), found))


def _copied(system: Any, path: str, url: str, line: Bar) -> Path:
    """Return the local copy of a file; one of the version that is there now is not copied again."""
    with _explained(url):
        facts = system.info(path)
        if facts.get("type") == "directory":
            raise DataError(f"{url}: expected a file, found a folder.", hint=f"Name its files: {url}/*.parquet")
        folder = cache_folder() / "files" / _digest(url)
        file = folder / PurePosixPath(path.partition("?")[0]).name
        note, version = folder.with_suffix(".json"), _version(facts)  # next to the folder: the file may have any name
        if version and file.is_file() and _noted(note) == version:
            line.advance(1)
            return file
        note.unlink(missing_ok=True)
        with new_file(file) as temporary:
            system.get_file(path, str(temporary))
            size = temporary.stat().st_size
            system.invalidate_cache()
            if facts.get("size") not in (None, size) or _version(system.info(path)) != version:
                raise DataError(
                    f"{url}: changed while it was copied: expected {facts.get('size')} bytes, found {size}.",
                    hint="Start again when nobody writes it any more.",
                )
        write_text(note, json.dumps({"version": version}))  # not the URL, which may hold a password
    line.advance(1)
    return file


def _version(facts: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what tells a version of a file from others; None if its file system does not say it."""
    told = {
        name: str(value)
        for name, value in facts.items()
        if value is not None and any(part in name.lower() for part in VERSION)
    }
    return {**told, "size": str(facts.get("size"))} if told else None


def _noted(note: Path) -> Any:
    try:
        return json.loads(note.read_text("utf-8"))["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Raise DataError for whatever a file system's driver raises; each has errors of its own."""
    try:
        yield
    except RunFolderError as error:
        raise DataError(
            f"{url}: cannot be copied: {error.message}",
            hint="Free some space, or name another folder in the environment variable PALBERT_CACHE.",
        ) from error
    except PalbertError:
        raise
    except FileNotFoundError as error:
        cause = f" ({first_line(error.__cause__)})" if error.__cause__ else ""  # of a web server that said why
        raise DataError(f"No such file: {url}{cause}") from error
    except ImportError as error:
        raise DataError(
            f"{url}: the package that reads such addresses is not installed: {error}.",
            hint="Install it with pip: s3fs for s3://, gcsfs for gs://, adlfs for az://, aiohttp for https://.",
        ) from error
    except Exception as error:
        raise DataError(
            f"{url}: cannot be read: {first_line(error)}.",
            hint="Check the address, the connection and the credentials, which the driver of the address looks for.",
        ) from error
