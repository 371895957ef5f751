"""Remote files: copies of what is behind a URL, and of the version that is there now."""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations

from palbert.errors import DataError
from palbert.readers import is_remote, resolve_files

Read = Callable[..., dict[str, list[str | None]]]
Put = Callable[..., None]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALBERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def memory() -> Iterator[Put]:
    """Write files of fsspec's file system in memory, which is emptied afterwards."""
    system = fsspec.filesystem("memory")

    def put(**files: str) -> None:
        for name, content in files.items():
            system.pipe_file(f"/rows/{name.replace('_', '.')}", content.encode())

    yield put
    system.rm("/rows", recursive=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """Serve a folder on loopback; yield its address, the folder, and the requests for files."""
    folder, asked = tmp_path / "served", []
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, format: str, *values: Any) -> None:
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder, asked
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("s3://bucket/a.csv", True),
        ("hf:owner/name:train", True),
        ("hf://datasets/owner/name/a.csv", True),
        ("/data/a.csv", False),
        ("a:b.csv", False),
        (r"C:\data\a.csv", False),
    ],
)
def test_urls_and_hub_data_sets_are_remote(path: str, remote: bool) -> None:
    assert is_remote(path) is remote


def test_a_url_is_read_like_a_file(read: Read, memory: Put) -> None:
    memory(a_csv="text,label\nx,1\n")
    assert read("memory://rows/a.csv") == {"text": ["x"], "label": ["1"]}


def test_the_address_is_not_kept_next_to_its_copy(server: tuple[str, Path, list[str]], tmp_path: Path) -> None:
    """It may hold credentials, as signed addresses do, and others may read the cache."""
    address, folder, _ = server
    (folder / "a.csv").write_text("text\nx\n", "utf-8")
    [file] = resolve_files(f"{address}/a.csv?X-Amz-Signature=secret")
    assert file.read_text("utf-8") == "text\nx\n"
    notes = list((tmp_path / "cache" / "files").glob("*.json"))
    assert len(notes) == 1 and "secret" not in notes[0].read_text("utf-8")


def test_a_pattern_gives_all_its_files_by_name(memory: Put) -> None:
    memory(b_csv="b", a_csv="a", c_tsv="c")
    found = resolve_files("memory://rows/*.csv")
    assert [(file.name, file.read_text()) for file in found] == [("a.csv", "a"), ("b.csv", "b")]


def test_a_file_url_is_read_where_it_is(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).touch()
    assert resolve_files(f"file://{tmp_path}/*.csv") == [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(DataError, match=r"No such file: .*/c\.csv"):
        resolve_files(f"file://{tmp_path}/c.csv")


def test_a_file_on_a_web_server_is_copied_once_until_it_changes(
    read: Read, server: tuple[str, Path, list[str]]
) -> None:
    address, folder, asked = server
    (folder / "a.csv").write_text("text\nx\n")
    for _ in range(2):
        assert read(f"{address}/a.csv?version=1") == {"text": ["x"]}
    assert asked == ["/a.csv?version=1"]
    (folder / "a.csv").write_text("text\ny\n")
    os.utime(folder / "a.csv", (0, 0))  # the server says seconds
    assert read(f"{address}/a.csv?version=1") == {"text": ["y"]}


def test_patterns_work_where_a_web_server_lists_its_folder(server: tuple[str, Path, list[str]]) -> None:
    address, folder, _ = server
    for name in ("part-1.csv", "part-0.csv", "other.txt"):
        (folder / name).write_text(name)
    assert [file.read_text() for file in resolve_files(f"{address}/part-*.csv")] == ["part-0.csv", "part-1.csv"]


@pytest.mark.parametrize("name", ["source.json", "a.json", ".json"])
def test_a_file_of_any_name_is_copied_whole(memory: Put, name: str) -> None:
    memory(**{name: '[{"text": "x"}]'})
    for _ in range(2):
        assert [file.read_text() for file in resolve_files(f"memory://rows/{name}")] == ['[{"text": "x"}]']


def test_a_file_without_a_version_is_copied_every_time(memory: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    info = MemoryFileSystem.info
    monkeypatch.setattr(
        MemoryFileSystem, "info", lambda self, path: {k: v for k, v in info(self, path).items() if k != "created"}
    )
    memory(a_csv="old")
    [file] = resolve_files("memory://rows/a.csv")
    memory(a_csv="new")
    assert resolve_files("memory://rows/a.csv") == [file]
    assert file.read_text() == "new"


def test_a_file_that_changes_while_it_is_copied_is_refused(memory: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    get = MemoryFileSystem.get_file

    def slow(self: MemoryFileSystem, path: str, target: str) -> None:
        get(self, path, target)
        memory(a_csv="new and longer")

    memory(a_csv="old")
    monkeypatch.setattr(MemoryFileSystem, "get_file", slow)
    with pytest.raises(DataError, match=r"memory://.*a\.csv: changed while it was copied"):
        resolve_files("memory://rows/a.csv")
    monkeypatch.undo()
    assert [file.read_text() for file in resolve_files("memory://rows/a.csv")] == ["new and longer"]


def test_an_interrupted_copy_is_not_taken_for_a_file(memory: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: MemoryFileSystem, path: str, target: str) -> None:
        Path(target).write_text("ol")
        raise ConnectionResetError("connection reset")

    memory(a_csv="old")
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "get_file", broken)
        with pytest.raises(DataError, match="cannot be read: connection reset"):
            resolve_files("memory://rows/a.csv")
    assert [file.read_text() for file in resolve_files("memory://rows/a.csv")] == ["old"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("memory://nowhere/a.csv", "No such file: memory://nowhere/a.csv"),
        ("memory://nowhere/*.csv", "no file fits this pattern"),
        ("memory://rows", "expected a file, found a folder"),
        ("unknown://rows/a.csv", "Protocol not known: unknown"),
        ("undriven://rows/a.csv", "is not installed: get the driver"),
        ("http://127.0.0.1:9/a.csv", r"No such file: http://127.0.0.1:9/a.csv \(.*connect"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_url(
    memory: Put, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.setitem(known_implementations, "undriven", {"class": "no_such_package.System", "err": "get the driver"})
    memory(a_csv="text\n")
    with pytest.raises(DataError, match=said) as caught:
        resolve_files(url)
    assert url in str(caught.value)


def test_a_full_disk_is_said_with_the_folder_to_change(memory: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: MemoryFileSystem, path: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    memory(a_csv="text\n")
    monkeypatch.setattr(MemoryFileSystem, "get_file", full)
    with pytest.raises(DataError, match=r"the disk is full.*PALBERT_CACHE"):
        resolve_files("memory://rows/a.csv")
