"""Fixtures of the readers: write a file, read it whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.readers import Dialect, read_chunks


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file of this name and content."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def read() -> Callable[..., dict[str, list[str | None]]]:
    """Read a whole file as text; further arguments are those of its dialect."""

    def read_file(path: Path | str, *, size: int = 20_000, **dialect: Any) -> dict[str, list[str | None]]:
        columns: dict[str, list[str | None]] = {}
        for chunk in read_chunks(str(path), dialect=Dialect(**dialect), size=size):
            for name in chunk.columns:
                columns.setdefault(name, []).extend(chunk.column(name))
        return columns

    return read_file


@pytest.fixture
def lines() -> Callable[[Path], list[int]]:
    """Return the line numbers of all rows."""
    return lambda path: [line for chunk in read_chunks(str(path)) for line in chunk.lines]
