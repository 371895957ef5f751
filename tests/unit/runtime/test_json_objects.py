"""JSON objects: what is not one is refused at once, with its file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palbert.errors import CheckpointError, EncoderError
from palbert.runtime.json_objects import LARGEST, read_object, read_object_if_there


def test_an_object_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ä": 1, "\\ud83d\\ude00": "\\u00e4"}', "utf-8")
    assert read_object(tmp_path / "a.json") == {"ä": 1, "\N{GRINNING FACE}": "ä"}
    assert read_object_if_there(tmp_path / "none.json") == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "expected a JSON object, found a list"),
        (b"null", "expected a JSON object, found a NoneType"),
        (b'{"a": "\xff"}', "not valid JSON"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 990 + b"]" * 990 + b"}", "nested too deeply"),
        (rb'{"a": ["\ud800"]}', "half of a surrogate pair"),
        (rb'{"\uDC00": 1}', "half of a surrogate pair"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_what_is_not_an_object_is_refused_with_its_file(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(EncoderError, match=rf"a\.json: .*{message}"):
        read_object(file)
    with pytest.raises(CheckpointError, match=rf"a\.json: .*{message}.*Train again\."):
        read_object(file, raises=CheckpointError, hint="Train again.")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with file.open("wb") as stream:
        os.truncate(stream.fileno(), LARGEST * 1000)
    with pytest.raises(EncoderError, match="expected a file of settings, found 67,108,864,000 bytes"):
        read_object(file)
