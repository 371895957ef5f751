"""Array files: .npy files that grow chunk by chunk, with checksums that are compared whenever they are loaded."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from palbert.runtime.json_objects import parse_json

BLOCK = 1 << 20
"""Bytes that are read at a time to compare a checksum."""

State = dict[str, Any]
"""What an array file holds: its type, its shape and the CRC-32 of its values."""


class ArrayFile:
    """A .npy file that rows are appended to; after `finish` it is what `np.save` writes for all of them.

    Args:
        path: The file.
        state: What an unfinished file holds, to continue it; what was written after that is cut off.
    """

    def __init__(self, path: Path, *, state: State | None = None) -> None:
        self.state: State = dict(state) if state else {}
        end = len(_header(self.state)) + _size(self.state) if state else 0
        if state and path.stat().st_size < end:
            raise ValueError(f"{path.name} is too short")
        self._stream = path.open("r+b" if state else "wb")
        self._stream.truncate(end)
        self._stream.seek(end)

    def append(self, rows: NDArray[Any]) -> None:
        """Write further rows."""
        rows = np.ascontiguousarray(rows)
        if not self.state:
            self.state = {"dtype": npy.dtype_to_descr(rows.dtype), "shape": [0, *rows.shape[1:]], "crc32": 0}
            self._stream.write(_header(self.state))
        length, *rest = self.state["shape"]
        if npy.dtype_to_descr(rows.dtype) != self.state["dtype"] or list(rows.shape[1:]) != rest:
            raise ValueError(f"rows of {rows.dtype}{rows.shape[1:]} do not fit {self.state}")
        content = rows.tobytes()
        self._stream.write(content)
        self.state |= {"shape": [length + len(rows), *rest], "crc32": zlib.crc32(content, self.state["crc32"])}

    def flush(self) -> None:
        """Give what was appended to the system, so that it outlives this process."""
        self._stream.flush()

    def finish(self) -> None:
        """Write how many rows there are, and close the file."""
        self._stream.seek(0)
        self._stream.write(_header(self.state))
        self._stream.close()

    def close(self) -> None:
        """Close the file as it is."""
        self._stream.close()


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]], *, mark: str, facts: Mapping[str, Any]) -> None:
    """Write arrays, and a file of facts about them with their checksums."""
    states = {}
    for name, array in arrays.items():
        file = ArrayFile(folder / f"{name}.npy")
        file.append(array)
        file.finish()
        states[name] = file.state
    write_facts(folder / mark, {**facts, "arrays": states})


def write_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts as JSON with a checksum of their own."""
    path.write_text(json.dumps({**facts, "crc32": _own_checksum(facts)}), "utf-8")


def read_facts(path: Path) -> dict[str, Any]:
    """Read what `write_facts` wrote; raise ValueError if it was changed."""
    facts = parse_json(path.read_text("utf-8"))
    if not isinstance(facts, dict) or facts.pop("crc32", None) != _own_checksum(facts):
        raise ValueError(f"{path.name} has no checksum, or another one than its content")
    return facts


def load_array(path: Path, state: State, *, check: bool = True) -> NDArray[Any]:
    """Map an array file into memory.

    Args:
        path: The file.
        state: What it must hold.
        check: Whether its whole content is read once to compare the checksum.

    Raises:
        OSError: The file cannot be read.
        ValueError: It holds something else.
    """
    start = _header(state)
    with path.open("rb") as stream:
        if stream.read(len(start)) != start or path.stat().st_size != len(start) + _size(state):
            raise ValueError(f"{path.name} has another type or size than when it was written")
    if check and _checksum(path, len(start)) != state["crc32"]:
        raise ValueError(f"{path.name} has another checksum than when it was written")
    # np.load would parse the header with ast, which fails in threads of Python 3.11; it was compared above.
    dtype, shape = np.dtype(state["dtype"]), tuple(state["shape"])
    if not _size(state):
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=len(start), shape=shape)


def _checksum(path: Path, start: int) -> int:
    value = 0
    with path.open("rb") as stream:
        stream.seek(start)
        while block := stream.read(BLOCK):
            value = zlib.crc32(block, value)
    return value


def _header(state: State) -> bytes:
    """Return the beginning of a .npy file; NumPy leaves room in it, so that more rows do not make it longer."""
    buffer = io.BytesIO()
    shape = tuple(state["shape"])
    npy.write_array_header_1_0(buffer, {"descr": state["dtype"], "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _size(state: State) -> int:
    return int(np.prod(state["shape"], dtype=np.int64)) * np.dtype(state["dtype"]).itemsize


def _own_checksum(facts: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())
