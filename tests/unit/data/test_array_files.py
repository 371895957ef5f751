"""Array files equal what np.save writes, can be continued, and notice every change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palbert.data.array_files import ArrayFile, load_array, read_facts, save_arrays, write_facts

ARRAYS: list[NDArray[Any]] = [
    np.arange(1000, dtype=np.int32),
    np.arange(12, dtype=np.float32).reshape(4, 3),
    np.zeros(0, dtype=np.uint8),
]


@pytest.mark.parametrize("array", ARRAYS, ids=["numbers", "rows", "nothing"])
@pytest.mark.parametrize("pieces", [1, 3])
def test_appended_rows_are_what_numpy_would_save(tmp_path: Path, array: NDArray[Any], pieces: int) -> None:
    np.save(tmp_path / "whole.npy", array)
    file = ArrayFile(tmp_path / "grown.npy")
    for piece in np.array_split(array, pieces):
        file.append(piece)
    file.finish()
    assert (tmp_path / "grown.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert np.array_equal(load_array(tmp_path / "grown.npy", file.state), array)


def test_a_file_is_continued_from_where_its_state_was_noted(tmp_path: Path) -> None:
    file = ArrayFile(tmp_path / "a.npy")
    file.append(np.arange(5))
    noted = dict(file.state)
    file.append(np.arange(100))  # lost, as if the process was killed before it noted this
    file.close()
    file = ArrayFile(tmp_path / "a.npy", state=noted)
    file.append(np.arange(5, 9))
    file.finish()
    assert load_array(tmp_path / "a.npy", file.state).tolist() == list(range(9))


def test_a_file_that_is_shorter_than_noted_cannot_be_continued(tmp_path: Path) -> None:
    file = ArrayFile(tmp_path / "a.npy")
    file.append(np.arange(5))
    file.close()
    state = {**file.state, "shape": [50]}
    with pytest.raises(ValueError, match="too short"):
        ArrayFile(tmp_path / "a.npy", state=state)


def test_rows_of_another_type_are_refused(tmp_path: Path) -> None:
    file = ArrayFile(tmp_path / "a.npy")
    file.append(np.zeros((2, 3)))
    for other in (np.zeros((2, 4)), np.zeros((2, 3), dtype=np.float32)):
        with pytest.raises(ValueError, match="do not fit"):
            file.append(other)
    file.close()


@pytest.mark.parametrize("place", [20, 128, -1])
def test_a_flipped_bit_is_noticed(tmp_path: Path, place: int) -> None:
    save_arrays(tmp_path, {"a": np.arange(50)}, mark="facts.json", facts={})
    state = read_facts(tmp_path / "facts.json")["arrays"]["a"]
    content = bytearray((tmp_path / "a.npy").read_bytes())
    content[place] ^= 4
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError):
        load_array(tmp_path / "a.npy", state)


def test_changed_facts_are_noticed(tmp_path: Path) -> None:
    write_facts(tmp_path / "facts.json", {"dropped": 3})
    assert read_facts(tmp_path / "facts.json") == {"dropped": 3}
    (tmp_path / "facts.json").write_text((tmp_path / "facts.json").read_text().replace("3", "7", 1))
    with pytest.raises(ValueError, match="checksum"):
        read_facts(tmp_path / "facts.json")


def test_facts_that_are_nested_without_end_are_damaged_facts(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text('{"crc32": ' + "[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_facts(tmp_path / "facts.json")
