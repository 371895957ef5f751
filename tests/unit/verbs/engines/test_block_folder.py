"""Block folders: complete files, used again by the same job only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.verbs.engines import Block
from palbert.verbs.engines.block_folder import BlockFolder


def blocks(*texts: list[str]) -> Iterator[Block]:
    for rows in texts:
        yield Block({"text": rows}, {"text": rows}, len(rows))


def test_the_same_job_keeps_its_blocks_and_another_one_starts_again(tmp_path: Path) -> None:
    folder = BlockFolder(tmp_path / "blocks")
    assert folder.cut({"model": "a"}, blocks(["x", "y"], ["é"])) == [2, 1]
    assert folder.texts(1) == {"text": ["é"]}
    folder.write_answers(1, {"prediction": [0.1]})
    assert folder.cut({"model": "a"}, blocks()) == [2, 1]
    assert folder.has_answers(1) and not folder.has_answers(0)
    assert folder.cut({"model": "b"}, blocks(["z"])) == [1]
    assert not folder.is_scored()


def test_blocks_that_were_not_all_cut_are_not_used(tmp_path: Path) -> None:
    def broken() -> Iterator[Block]:
        yield from blocks(["x"])
        raise RuntimeError("power cut")

    folder = BlockFolder(tmp_path / "blocks")
    with pytest.raises(RuntimeError):
        folder.cut({}, broken())
    assert folder.cut({}, blocks(["x"], ["y"])) == [1, 1]


def test_a_block_that_is_scored_twice_has_its_last_answers_once(tmp_path: Path) -> None:
    folder = BlockFolder(tmp_path / "blocks")
    folder.cut({}, blocks(["x"]))
    folder.write_answers(0, {"prediction": [1.5]})
    folder.write_answers(0, {"prediction": [2.5]})
    assert folder.answers(0) == {"prediction": [2.5]}
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "answers-000000.json", "job.json", "texts-000000.json",
    ]  # fmt: skip


def test_answers_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    folder = BlockFolder(tmp_path / "blocks")
    folder.cut({}, blocks(["x"]))
    with pytest.raises(TypeError):
        folder.write_answers(0, {"prediction": [object()]})
    assert not folder.has_answers(0)
    assert not list(folder.path.glob(".*"))


@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"job": {}}', "[]"])
def test_damaged_files_are_cut_again_or_named(tmp_path: Path, content: str) -> None:
    folder = BlockFolder(tmp_path / "blocks")
    folder.cut({}, blocks(["x"], ["y"]))
    (folder.path / "job.json").write_text(content)
    assert folder.cut({}, blocks(["z"])) == [1]
    (folder.path / "texts-000000.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"texts-000000\.json: damaged .*Remove .*blocks and start again"):
        folder.texts(0)


def test_answers_with_a_flipped_bit_are_scored_again(tmp_path: Path) -> None:
    folder = BlockFolder(tmp_path / "blocks")
    folder.cut({}, blocks(["x"]))
    folder.write_answers(0, {"prediction": [1.5]})
    assert folder.has_answers(0)
    path = folder.path / "answers-000000.json"
    path.write_bytes(path.read_bytes().replace(b"1.5", b"1.7"))
    assert not folder.has_answers(0)
    with pytest.raises(DataError, match=r"answers-000000\.json: damaged \(its SHA-256 is another\)"):
        folder.answers(0)


@pytest.mark.parametrize("name", ["notes.txt", "texts-1.json", "answers-000000.csv"])
def test_a_folder_with_files_of_somebody_else_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    folder = BlockFolder(tmp_path / "blocks")
    folder.cut({"model": "a"}, blocks(["x"]))
    (folder.path / name).write_text("mine")
    before = sorted(folder.path.iterdir())
    with pytest.raises(DataError, match=rf"{name}: palbert did not write this.*Move it away"):
        folder.cut({"model": "b"}, blocks(["z"]))
    folder.remove()
    assert sorted(folder.path.iterdir()) == before


def test_what_a_killed_process_left_is_removed_and_tries_are_counted(tmp_path: Path) -> None:
    folder = BlockFolder(tmp_path / "blocks")
    folder.cut({}, blocks(["x"], ["y"]))
    (folder.path / f".answers-000000.json.{'0' * 32}").write_text("half")
    assert [folder.begin(0), folder.begin(0), folder.begin(1)] == [1, 2, 1]
    folder.forget_tries()
    assert folder.begin(0) == 1
    folder.remove()
    assert not folder.path.exists()
