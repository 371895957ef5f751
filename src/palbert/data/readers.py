"""Readers: CSV, TSV, JSONL and Parquet files and Hub data sets as chunks of text columns."""

from __future__ import annotations

import csv
import fnmatch
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.errors import DataError, MissingExtraError, did_you_mean
from palbert.runtime.files import allow_long_fields
from palbert.tasks.sources import Quoting

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
CHUNK = 20_000


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file. A missing field is None."""

    path: str
    columns: dict[str, list[Any]]
    """Values as the file has them: text in CSV and TSV, anything in JSONL and Parquet."""
    lines: list[int]
    """The line on which each row begins, from 1 (in Parquet: the number of the row)."""

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str | None]:
        """Return a column as text; raise DataError with the known columns if it does not exist."""
        return [self._text(value, name, line) for value, line in self._cells(name)]

    def labels(self, name: str, *, lists: bool = False) -> list[str | list[str] | None]:
        """Return a column of labels, None for a row without one.

        Args:
            name: The column.
            lists: Whether a row may have any number of labels: lists are read, and an empty cell is a label too.
        """
        labels: list[str | list[str] | None] = []
        for value, line in self._cells(name):
            if lists and isinstance(value, list):
                labels.append([self._text(item, name, line) or "" for item in value])
            else:
                text = self._text(value, name, line) or ""
                labels.append(text if lists or text.strip() else None)
        return labels

    def _cells(self, name: str) -> Iterator[tuple[Any, int]]:
        if name not in self.columns:
            raise no_column(self.path, name, list(self.columns))
        return zip(self.columns[name], self.lines, strict=True)

    def _text(self, value: Any, name: str, line: int) -> str | None:
        if isinstance(value, list | dict):
            raise DataError(f"{self.path}, line {line}: expected a text or a number in '{name}', found {value!r:.60}.")
        return as_text(value)


def no_column(path: str, name: str, known: list[str]) -> DataError:
    """Return the error for a column that a file does not have."""
    return DataError(f"{path}: no column '{name}'.", hint=did_you_mean(name, [column for column in known if column]))


def read_chunks(path: str, *, quoting: Quoting = "auto", size: int = CHUNK) -> Iterator[Chunk]:
    """Read a file or a Hub data set in chunks; there is at least one, which may be empty."""
    for file in resolve_files(path):
        suffix = file.suffix.lower()
        if suffix == ".jsonl":
            yield from _read_jsonl(file, size)
        elif suffix == ".parquet":
            yield from _read_parquet(file, size)
        elif suffix in (".csv", ".tsv"):
            quoted = quoting == "on" or (quoting == "auto" and suffix == ".csv")
            yield from _read_separated(file, size, quoted=quoted)
        else:
            raise DataError(f"{file}: unknown kind of file.", hint=f"Known: {', '.join(SUFFIXES)}.")


def read_lines(path: str) -> list[str]:
    """Read a plain text file with one text per line; blank lines are skipped."""
    file = Path(path)
    try:
        with file.open(encoding="utf-8-sig", newline="\n") as stream:
            return [text for line in stream if (text := line.strip())]
    except UnicodeDecodeError:
        raise _not_utf8(file) from None


def column_names(path: str, *, quoting: Quoting = "auto") -> list[str]:
    """Return the columns of a file; a JSONL file is read to its end, as each row may have its own."""
    names: dict[str, None] = {}
    for chunk in read_chunks(path, quoting=quoting):
        names |= dict.fromkeys(chunk.columns)
        if Path(chunk.path).suffix.lower() != ".jsonl":
            break
    return list(names)


def count_rows(path: str) -> int:
    """Estimate the number of rows without parsing them; line breaks in texts make it too high."""
    total = 0
    for file in resolve_files(path):
        if file.suffix.lower() == ".parquet":
            total += _parquet_file(file).metadata.num_rows
        else:
            with file.open("rb") as stream:
                total += sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
    return total


def resolve_files(path: str) -> list[Path]:
    """Return the local files behind a path or a Hub data set."""
    if path.startswith("hf:"):
        return _hub_files(path)
    file = Path(path)
    if file.exists() and not file.is_file():
        raise DataError(f"{path}: not a regular file.", hint="Give a .csv, .tsv, .jsonl or .parquet file.")
    if not file.is_file():
        raise DataError(f"No such file: {path}")
    return [file]


def _read_separated(file: Path, size: int, *, quoted: bool) -> Iterator[Chunk]:
    allow_long_fields()
    with file.open(encoding="utf-8-sig", newline="" if quoted else "\n") as stream:
        try:
            first = stream.readline()
            separator = "\t" if "\t" in first or file.suffix.lower() == ".tsv" else ","
            stream.seek(0)
            if quoted or separator == ",":
                reader = csv.reader(
                    stream,
                    delimiter=separator,
                    quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
                    strict=True,  # otherwise an unclosed quote would turn the rest of the file into one text
                )
                rows = _numbered(file, reader)
            else:  # csv would end a line at a lone carriage return within a field
                stripped = (line.rstrip("\r\n") for line in stream)
                rows = ((number, line.split("\t") if line else []) for number, line in enumerate(stripped, 1))
            yield from _separated_chunks(file, rows, size)
        except UnicodeDecodeError:
            raise _not_utf8(file) from None


def _numbered(file: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line on which it begins; csv counts the lines up to its end."""
    begin = 1
    try:
        for row in reader:
            yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        what = "a quote that opens here is never closed" if "unexpected end" in str(error) else str(error)
        raise DataError(
            f"{file}, line {begin}: {what}.",
            hint='Fix the row, or set quoting = "off" if quotes mean nothing here.',
        ) from error


def _separated_chunks(file: Path, rows: Iterator[tuple[int, list[str]]], size: int) -> Iterator[Chunk]:
    header = next(rows, (0, []))[1]
    if not any(name.strip() for name in header):
        raise DataError(f"{file}, line 1: expected a header with column names, found none.")
    for name in header:
        if name.strip() and header.count(name) > 1:
            raise DataError(f"{file}, line 1: two columns are named '{name}'.", hint="Rename one of them.")
    width, taken, lines = len(header), [], []
    started = False
    for number, row in rows:
        if not row:
            continue  # a blank line, as at the end of many files; a quoted "" is a row with an empty field
        if len(row) > width:
            raise DataError(
                f"{file}, line {number}: expected {width} fields, found {len(row)}.",
                hint='Is the quoting right? Set quoting = "on" or "off".',
            )
        taken.append(row + [None] * (width - len(row)) if len(row) < width else row)
        lines.append(number)
        if len(taken) == size:
            yield _chunk(file, header, taken, lines)
            taken, lines, started = [], [], True
    if taken or not started:
        yield _chunk(file, header, taken, lines)


def _chunk(file: Path, header: list[str], rows: list[Any], lines: list[int]) -> Chunk:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in header]
    return Chunk(str(file), dict(zip(header, columns, strict=True)), lines)


def _read_jsonl(file: Path, size: int) -> Iterator[Chunk]:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    started = False
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except UnicodeDecodeError:
                raise _not_utf8(file) from None
            except json.JSONDecodeError as error:
                raise DataError(f"{file}, line {number}: not valid JSON: {error}.") from error
            if not isinstance(row, dict):
                raise DataError(f"{file}, line {number}: expected an object, found {line[:40]!r}.")
            if b"\\u" in line and not _is_unicode(row):
                raise DataError(f"{file}, line {number}: expected valid Unicode, found half of a surrogate pair.")
            rows.append(row)
            lines.append(number)
            if len(rows) == size:
                yield _json_chunk(file, rows, lines)
                rows, lines, started = [], [], True
    if rows or not started:
        yield _json_chunk(file, rows, lines)


def _is_unicode(row: dict[str, Any]) -> bool:
    """Whether a row can be written as UTF-8; escapes in JSON allow values that cannot."""
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _json_chunk(file: Path, rows: list[dict[str, Any]], lines: list[int]) -> Chunk:
    names = dict.fromkeys(name for row in rows for name in row)
    return Chunk(str(file), {name: [row.get(name) for row in rows] for name in names}, lines)


def _parquet_file(file: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet files need", package="pyarrow", extra="parquet") from None
    try:
        return pyarrow.parquet.ParquetFile(file)
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{file}: not a Parquet file: {str(error).rstrip('.')}.") from error


def _read_parquet(file: Path, size: int) -> Iterator[Chunk]:
    table = _parquet_file(file)
    first = 1
    for batch in table.iter_batches(batch_size=size):
        columns = {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        yield Chunk(str(file), columns, list(range(first, first + batch.num_rows)))
        first += batch.num_rows
    if first == 1:
        yield Chunk(str(file), {name: [] for name in table.schema_arrow.names}, [])


def as_text(value: Any) -> str | None:
    """Return a value as the text that a CSV file would have for it; Booleans are 0 or 1."""
    if value is None or isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, bool) else str(value)


def _not_utf8(file: Path) -> DataError:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return DataError(
                    f"{file}, line {number}: expected UTF-8, found byte 0x{line[error.start]:02x}.",
                    hint="Convert the file, for example: iconv -f latin1 -t utf-8",
                )
    raise AssertionError(f"{file} was not UTF-8 and now it is")


def _hub_files(path: str) -> list[Path]:
    """Download the files of one split of `hf:owner/name[/config]:split`."""
    name, separator, split = path.removeprefix("hf:").partition(":")
    owner, _, rest = name.partition("/")
    repository, _, config = rest.partition("/")
    if not (owner and repository and separator and split):
        raise DataError(f"{path}: expected hf:owner/name:split or hf:owner/name/config:split.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    folder = f"{config}/" if config else ""
    patterns = [f"{folder}*{split}*{suffix}" for suffix in SUFFIXES]
    try:
        root = Path(snapshot_download(f"{owner}/{repository}", repo_type="dataset", allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{path}: cannot be fetched from the Hub: {reason}",
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
        raise DataError(f"{path}: no {', '.join(SUFFIXES)} file of split '{split}'; found {names}.")
    configs = sorted({file.relative_to(root).parent.as_posix() for file in found})
    if len(configs) > 1:
        raise DataError(
            f"{path}: the data set has several configurations: {', '.join(configs)}.",
            hint=f"Name one: hf:{owner}/{repository}/{configs[0]}:{split}",
        )
    return found
