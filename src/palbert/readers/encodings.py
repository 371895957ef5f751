"""Encodings: how the bytes of a text file become letters. Wrong letters are worse than a refusal."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from palbert.errors import DataError
from palbert.readers.files import open_bytes, refuse_disguised

MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks, the longer ones of UTF-32 first, as they begin like those of UTF-16."""
START = 4096
"""How many bytes are looked at to recognise an encoding."""


@contextmanager
def open_text(file: Path, *, encoding: str | None = None, newline: str = "\n") -> Iterator[TextIO]:
    """Open a file to read its text, without a byte order mark.

    Args:
        file: A file of text; .gz is read uncompressed.
        encoding: How letters are written; recognised unless given.
        newline: As in `open`.

    Raises:
        DataError: The file has another encoding, which the error names as well as it can be guessed.
    """
    with open_bytes(file) as stream:
        codec = _codec(file, stream, encoding)
        stream.seek(0)
        try:
            with io.TextIOWrapper(stream, encoding=codec, newline=newline) as text:
                yield text
        except UnicodeError:
            raise (_not_utf8(file) if codec == "utf-8-sig" else _undecodable(file, codec, given=encoding)) from None


def _codec(file: Path, stream: BinaryIO, encoding: str | None) -> str:
    """Return the codec of a file, from what is given and from how it begins."""
    start = stream.read(START)
    refuse_disguised(file, start)
    marked = next((codec for mark, codec in MARKS.items() if start.startswith(mark)), None)
    if encoding is None:
        if marked is None and start.count(0) > len(start) // 5:
            side = "le" if start[1::2].count(0) >= start[::2].count(0) else "be"
            raise DataError(
                f"{file}: expected UTF-8, found many zero bytes, as in UTF-16.",
                hint=f'Write encoding = "utf-16-{side}".',
            )
        return marked or "utf-8-sig"
    given = codecs.lookup(encoding).name
    if marked is not None and given.split("-")[:2] != marked.split("-")[:2]:
        family = marked.removesuffix("-sig").upper()
        raise DataError(
            f'{file}: the file begins with the mark of {family}, and the recipe has encoding = "{encoding}".',
            hint=f'Write encoding = "{family.lower()}" for this file.',
        )
    if marked is None and given in ("utf-16", "utf-32"):
        raise DataError(
            f'{file}: encoding = "{encoding}" needs a byte order mark at the beginning, found none.',
            hint=f'Write encoding = "{given}-le" or encoding = "{given}-be".',
        )
    if not given.startswith("utf") and len(b"\xc3\xa9".decode(given, "replace")) == 2:  # one byte per letter
        _refuse_utf8(file, stream, encoding)
    return marked or ("utf-8-sig" if given == "utf-8" else given)


def _refuse_utf8(file: Path, stream: BinaryIO, encoding: str) -> None:
    """Raise DataError if a file is UTF-8 after all: other encodings of one byte per letter would read any file."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    special = ""
    stream.seek(0)
    try:
        while block := stream.read(1 << 20):
            text = decoder.decode(block)
            if not special and not block.isascii():
                special = next((letter for letter in text if not letter.isascii()), "")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return
    if special:
        wrong = special.encode().decode(encoding, "replace")
        raise DataError(
            f'{file}: the file is UTF-8, and encoding = "{encoding}" would read "{special}" as "{wrong}".',
            hint='Write encoding = "utf-8" for this file.',
        )


def _not_utf8(file: Path) -> DataError:
    """Return the error for a file that is not UTF-8, with the first line that is not."""
    first: tuple[int, bytes, int] | None = None
    others = 0  # lines with letters that are valid UTF-8, which no other encoding has by chance
    with open_bytes(file) as stream:
        for number, line in enumerate(stream, 1):
            if line.isascii():
                continue
            try:
                line.decode("utf-8")
                others += 1
            except UnicodeDecodeError as error:
                first = first or (number, line, error.start)
    assert first is not None, f"{file} was not UTF-8 and now it is"
    number, line, place = first
    return DataError(
        f"{file}, line {number}: expected UTF-8, found byte 0x{line[place]:02x}.",
        hint=_remedy(line, place, others=others),
    )


def _remedy(line: bytes, place: int, *, others: int) -> str:
    if others:
        plural = "lines have" if others > 1 else "line has"
        return f"{others:,} other {plural} letters in valid UTF-8, so this line is damaged: correct it."
    near = line[max(0, place - 20) : place + 20].strip()
    try:
        shown = near.decode("windows-1252")
    except UnicodeDecodeError:
        return 'Name the encoding of the file, for example encoding = "shift_jis", or convert it to UTF-8.'
    return (
        f'Write encoding = "windows-1252" if this reads well: "{shown}". If not, name the encoding that the file has, '
        'for example "windows-1251" or "shift_jis".'
    )


def _undecodable(file: Path, codec: str, *, given: str | None) -> DataError:
    """Return the error for a file that has not the encoding that was given, or that its mark promises."""
    with open_bytes(file) as stream:
        content = stream.read()
    try:
        content.decode(codec)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"found byte 0x{content[error.start]:02x}" if error.start < len(content) else "found its end"
        return DataError(
            f"{file}, line {line}: expected {given or codec.upper()}, {found}.",
            hint="Name the encoding that the file has, or leave encoding out if it is UTF-8."
            if given
            else "The file is damaged: save it again, best as UTF-8.",
        )
    return DataError(f"{file}: expected {given or codec.upper()}.", hint="Convert the file to UTF-8.")
