"""The token cache: killed builds continue, and all builds give the same bytes."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from palbert.data import rows as rows_module
from palbert.data import token_cache as module
from palbert.data.rows import Rows
from palbert.data.snapshot import Snapshot
from palbert.data.token_cache import JOURNAL, MARK, RowArrays, build, fill, load_arrays
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.readers import FileGoneError, remote
from palbert.tasks.sets import DataFiles, files_of
from palbert.tasks.spec import Task


def files_in(folder: Path, *, rows: int = 11, last: str = "1") -> DataFiles:
    lines = [f"the film number {number}\t{number % 2}" for number in range(rows)]
    (folder / "a.tsv").write_text("\n".join(["text\tlabel", *lines, f"the last\t{last}"]))
    own = {"name": "own", "kind": "single", "target": "classes", "classes": ["no", "yes"], "text": "text"}
    return files_of(Task.model_validate({**own, "train": str(folder / "a.tsv")}), "train")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (module, rows_module):
        monkeypatch.setattr(each, "CHUNK", 2)


def test_the_size_of_the_chunks_does_not_change_the_entry(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_in(tmp_path)
    for size in (1, 3, 20_000):
        monkeypatch.setattr(rows_module, "CHUNK", size)
        build(tmp_path / str(size), files, Snapshot.of(files), tokenizer)
    assert content(tmp_path / "1") == content(tmp_path / "3") == content(tmp_path / "20000")


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_build_that_was_killed_continues(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    files = files_in(tmp_path)
    build(tmp_path / "whole", files, Snapshot.of(files), tokenizer)
    appended: list[int] = []

    def append(self: RowArrays, rows: Rows, *rest: Any, own: Any = RowArrays.append) -> None:
        own(self, rows, *rest)  # killed after writing, before it is noted
        appended.append(len(rows))
        if len(appended) == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RowArrays, "append", append)
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path / "entry", files, Snapshot.of(files), tokenizer)
        assert (tmp_path / ".entry.partial" / JOURNAL).is_file() == (after > 1)
        assert build(tmp_path / "entry", files, Snapshot.of(files), tokenizer) == (after > 1)
    assert content(tmp_path / "entry") == content(tmp_path / "whole")
    assert sum(appended) == 12 + 2  # one chunk is done twice
    assert not (tmp_path / ".entry.partial").exists()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.usefixtures("small_chunks")
def test_what_cannot_be_continued_is_closed_and_written_again(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_in(tmp_path)
    build(tmp_path / "whole", files, Snapshot.of(files), tokenizer)
    with monkeypatch.context() as patch:
        patch.setattr(RowArrays, "finish", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path / "entry", files, Snapshot.of(files), tokenizer)
    (tmp_path / ".entry.partial" / "labels.npy").write_bytes(b"short")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not build(tmp_path / "entry", files, Snapshot.of(files), tokenizer)
    assert [str(each.message) for each in caught if each.category is ResourceWarning] == []
    assert content(tmp_path / "entry") == content(tmp_path / "whole")


def test_a_wrong_row_leaves_nothing_behind(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    files = files_in(tmp_path, last="2")
    with pytest.raises(DataError, match="line 13"):
        build(tmp_path / "cache" / "entry", files, Snapshot.of(files), tokenizer)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.usefixtures("small_chunks")
def test_a_file_that_is_gone_for_a_while_does_not_cost_what_was_read(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_in(tmp_path)
    snapshot = Snapshot.of(files)
    build(tmp_path / "whole", files, snapshot, tokenizer)
    rows = rows_module._chunks

    def interrupted(*arguments: Any) -> Any:
        for number, chunk in enumerate(rows(*arguments)):
            if number == 3:
                raise FileGoneError("a.tsv: cannot be read")
            yield chunk

    with monkeypatch.context() as patch:
        patch.setattr(rows_module, "_chunks", interrupted)
        with pytest.raises(FileGoneError, match=r"a\.tsv: cannot be read"):
            build(tmp_path / "entry", files, snapshot, tokenizer)
    assert build(tmp_path / "entry", files, snapshot, tokenizer)  # the work before is continued
    assert content(tmp_path / "entry") == content(tmp_path / "whole")


@pytest.mark.usefixtures("small_chunks")
def test_two_builds_of_one_entry_do_the_work_once(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = files_in(tmp_path)
    snapshot = Snapshot.of(files)
    begun, go_on = threading.Event(), threading.Event()
    appended: list[int] = []

    def append(self: RowArrays, rows: Rows, *rest: Any, own: Any = RowArrays.append) -> None:
        begun.set()
        go_on.wait(60)
        own(self, rows, *rest)
        appended.append(len(rows))

    monkeypatch.setattr(RowArrays, "append", append)
    caplog.set_level("INFO")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(build, tmp_path / "entry", files, snapshot, tokenizer)
        begun.wait(60)
        second = pool.submit(build, tmp_path / "entry", files, snapshot, tokenizer)
        while "Another process is reading the same files" not in caplog.text:
            time.sleep(0.01)
        go_on.set()
        assert (first.result(), second.result()) == (False, True)
    assert sum(appended) == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tsv", "entry"]


def test_counting_rows_for_the_progress_bar_does_not_fetch_remote_files_again(
    tmp_path: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_in(tmp_path)
    [source] = files.sources
    files = replace(files, sources=(source.model_copy(update={"path": f"file://{source.path}"}),))
    fetched: list[str] = []

    def fetch(url: str, own: Any = remote.remote_files) -> list[Path]:
        fetched.append(url)
        found: list[Path] = own(url)
        return found

    monkeypatch.setattr("palbert.readers.files.remote_files", fetch)
    snapshot = Snapshot.of(files)
    monkeypatch.setattr(module, "is_shown", lambda: True)
    monkeypatch.setattr(module, "console", lambda: SimpleNamespace(is_terminal=True))
    assert fill(RowArrays(None), files, snapshot, tokenizer)["labelled"]
    assert len(fetched) == 1


def test_rows_in_memory_are_those_of_the_entry(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    files = files_in(tmp_path)
    build(tmp_path / "entry", files, Snapshot.of(files), tokenizer)
    loaded, facts = load_arrays(tmp_path / "entry")
    arrays = RowArrays(None)
    assert fill(arrays, files, Snapshot.of(files), tokenizer).items() <= facts.items()
    kept = arrays.in_memory()
    assert {name: value.tolist() for name, value in kept.items()} == {
        name: value.tolist() for name, value in loaded.items()
    }
    assert (tmp_path / "entry" / MARK).is_file()
