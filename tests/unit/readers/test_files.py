"""Files: what is not a data file is refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers.files import FileGoneError, suffix_of
from palbert.runtime.files import new_file

Read = Callable[..., dict[str, list[str | None]]]

Write = Callable[[str, str | bytes], Path]
UNREADABLE = Path("/proc/self/mem")
"""A file that can be opened, but not read from its beginning."""


def test_a_missing_file_is_refused(read: Read, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read(tmp_path / "absent.csv")


def test_a_folder_is_not_accepted_as_a_data_file(read: Read, tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match="not a regular file"):
        read(tmp_path / "a.csv")


@pytest.mark.skipif(not UNREADABLE.exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.json"])
def test_what_the_system_refuses_is_said_of_the_file_that_is_read(file: Write, read: Read, name: str) -> None:
    """Also in the block of `new_file`, which would take it for an error of what it writes."""
    unreadable = file(name, "")
    unreadable.unlink()
    unreadable.symlink_to(UNREADABLE)
    with (
        pytest.raises(FileGoneError, match=rf"/{name}: cannot be read: Input/output error"),
        new_file(unreadable.with_name("out.csv")),
    ):
        read(unreadable)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.CSV.GZ", "a.tsv.gz", "a.jsonl.gz", "a.json.gz"])
def test_compressed_text_is_read_as_if_it_were_not(file: Write, read: Read, name: str) -> None:
    plain = name[: -len(".gz")].lower()
    text = {"a.csv": "a,b\n1,x\n", "a.tsv": "a\tb\n1\tx\n", "a.jsonl": '{"a": 1, "b": "x"}\n'}
    content = text.get(plain, '[{"a": 1, "b": "x"}]').encode()
    assert read(file(name, gzip.compress(content))) == read(file(plain, content)) == {"a": ["1"], "b": ["x"]}
    assert suffix_of(Path(name)) == suffix_of(Path(plain))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda packed: packed[:-20], "ends too early"),
        (lambda packed: packed[:15] + b"\xff\xff" + packed[17:], "is damaged"),
        (lambda packed: packed[:-8] + b"\0\0\0\0" + packed[-4:], "is damaged"),
        (lambda packed: b"a,b\n1,2\n", "not compressed by gzip.*without .gz"),
    ],
)
def test_a_damaged_archive_is_refused(file: Write, read: Read, damage: Callable[[bytes], bytes], said: str) -> None:
    text = "".join(f"{row},{row * 7919 % 1009}\n" for row in range(500))
    with pytest.raises(DataError, match=rf"a\.csv\.gz: .*{said}"):
        read(file("a.csv.gz", damage(gzip.compress(f"a,b\n{text}".encode()))))


@pytest.mark.parametrize(
    ("start", "said"),
    [(b"\x1f\x8b", "gzip.*csv.gz"), (b"PK\x03\x04", "xlsx"), (b"\xd0\xcf\x11\xe0", "xlsx"), (b"PAR1", "parquet")],
)
def test_a_file_of_another_kind_that_is_named_like_text_is_recognised(
    file: Write, read: Read, start: bytes, said: str
) -> None:
    with pytest.raises(DataError, match=f"expected text, but the file .*{said}"):
        read(file("a.csv", start + b"\0\1\2" * 9))


def test_kinds_that_are_not_read_are_refused_with_what_to_do(file: Write, read: Read) -> None:
    for name, remedy in (("a.xls", "save it as .xlsx"), ("a.txt", "Name it .csv"), ("a.csv.bz2", "Unpack it")):
        with pytest.raises(DataError, match=f"unknown kind of file. .*{remedy}"):
            read(file(name, "text\n"))
    with pytest.raises(DataError, match=r"\.parquet files are not read compressed. Unpack"):
        read(file("a.parquet.gz", "text\n"))
