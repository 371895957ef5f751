"""Files: which local files are behind a path, of which kind they are, and their bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from palbert.errors import DataError
from palbert.readers.hub import hub_files
from palbert.readers.remote import is_remote, remote_files

TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json")
"""Files of text; each may be compressed, as in .csv.gz."""
SUFFIXES = (*TEXT_SUFFIXES, ".xlsx", ".parquet")
KNOWN = f"{', '.join(SUFFIXES)}; also {', '.join(suffix + '.gz' for suffix in TEXT_SUFFIXES)}"
SIGNATURES = {
    b"\x1f\x8b": ("is compressed by gzip", "Name it .csv.gz, .tsv.gz, .jsonl.gz or .json.gz."),
    b"PK\x03\x04": ("is a ZIP archive or an Excel workbook", "Name a workbook .xlsx; unpack an archive."),
    b"\xd0\xcf\x11\xe0": ("is an Excel workbook of the old format or with a password", "Save it as .xlsx or .csv."),
    b"PAR1": ("is a Parquet file", "Name it .parquet."),
}
"""How files of other kinds begin, what they are, and what to do with one that is named like a file of text."""
AGAIN = "Copy or download it again."
OTHERS = {
    ".xls": "Open it in a spreadsheet program and save it as .xlsx or .csv.",
    ".ods": "Open it in a spreadsheet program and save it as .xlsx or .csv.",
    ".txt": "Name it .csv or .tsv if its first line names the columns.",
    ".zip": "Unpack it first.",
    ".bz2": "Unpack it first.",
    ".xz": "Unpack it first.",
    ".zst": "Unpack it first.",
}
"""Kinds of files that people have and that are not read, with what to do."""


class FileGoneError(DataError):
    """A file that cannot be read just now."""


def resolve_files(path: str) -> list[Path]:
    """Return the local files behind a path, a URL or a Hub data set."""
    if path.startswith("hf:") and not path.startswith("hf://"):
        return hub_files(path, (*SUFFIXES, *(f"{suffix}.gz" for suffix in TEXT_SUFFIXES)))
    if is_remote(path):
        return remote_files(path)
    file = Path(path)
    with _readable(file):
        there, regular = file.exists(), file.is_file()
    if there and not regular:
        raise DataError(f"{path}: not a regular file.", hint=f"Give a file of one of the kinds {KNOWN}.")
    if not regular:
        raise DataError(f"No such file: {path}")
    return [file]


def suffix_of(file: Path) -> str:
    """Return what says the kind of a file, in lower case: ".csv" for a.csv and for a.CSV.gz.

    Raises:
        DataError: Files of this kind are not read, or not read compressed.
    """
    name = file.name.lower()
    inner = Path(name.removesuffix(".gz")).suffix
    if inner not in SUFFIXES:
        raise DataError(f"{file}: unknown kind of file.", hint=f"{OTHERS.get(inner, 'Known:')} {_known(inner)}.")
    if is_compressed(file) and inner not in TEXT_SUFFIXES:
        raise DataError(f"{file}: {inner} files are not read compressed.", hint="Unpack it with gunzip.")
    return inner


def is_compressed(file: Path) -> bool:
    """Whether the name of a file says that it is compressed."""
    return file.name.lower().endswith(".gz")


@contextmanager
def open_bytes(file: Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, uncompressed; DataError says what keeps the block from reading them."""
    with _readable(file):
        if is_compressed(file):
            with _unpacked(file) as stream:
                yield stream
        else:
            with file.open("rb") as stream:
                yield stream


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Raise FileGoneError for what the system refuses: others would take it for an error of what they write."""
    try:
        yield
    except OSError as error:
        raise FileGoneError(f"{file}: cannot be read: {error.strerror or error}.") from error


@contextmanager
def _unpacked(file: Path) -> Iterator[BinaryIO]:
    """Open a compressed file; raise DataError when it turns out to be damaged."""
    try:
        with gzip.open(file, "rb") as unpacked:
            yield cast(BinaryIO, unpacked)
    except gzip.BadGzipFile as error:
        if "Not a gzipped" not in str(error):
            raise DataError(f"{file}: the compressed file is damaged.", hint=AGAIN) from error
        raise DataError(f"{file}: not compressed by gzip, as .gz says.", hint="Name it without .gz.") from error
    except (EOFError, zlib.error) as error:
        what = "ends too early" if isinstance(error, EOFError) else "is damaged"
        raise DataError(f"{file}: the compressed file {what}.", hint=AGAIN) from error


def refuse_disguised(file: Path, start: bytes) -> None:
    """Raise DataError if a file that is named like one of text begins like one of another kind."""
    for signature, (what, remedy) in SIGNATURES.items():
        if start.startswith(signature):
            raise DataError(f"{file}: expected text, but the file {what}.", hint=remedy)


def _known(inner: str) -> str:
    return f"Known kinds are {KNOWN}" if inner in OTHERS else KNOWN
