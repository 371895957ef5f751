"""An entry as it is written: texts or their hashes, and never a value that SQLite refuses."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from typing import Any

import pytest

from palbert.serving.audit_entry import COLUMNS, AuditEntry, hash_of, row_of

KEY = bytes(range(32))
ANSWER = {"prediction": "positive", "probabilities": {"negative": 0.25, "positive": 0.75}, "cut": False}


def entry(**changes: Any) -> AuditEntry:
    values: dict[str, Any] = {
        "time": 1767225600.5,
        "request_id": "r1",
        "client": "website",
        "run": "demo",
        "fingerprint": "3f",
        "task": "sst",
        "input": "A quiet triumph.",
        "answer": ANSWER,
        "seconds": 0.004,
    }
    return AuditEntry(**(values | changes))


def row(given: AuditEntry, key: bytes | None = None) -> dict[str, Any]:
    return dict(zip(COLUMNS, row_of(given, key), strict=True))


@pytest.mark.parametrize(
    "given", ["", "A quiet triumph.", 'a "b"\n\x00\x9b\u2028', "中文 🎸", ("one", "two"), ["ü", "\ud800 half"]]
)
def test_texts_and_answers_read_back_as_they_were(given: Any) -> None:
    written = row(entry(input=given))
    assert json.loads(written["input"]) == (given if isinstance(given, str) else list(given))
    assert json.loads(written["answer"]) == ANSWER
    assert written["input_hmac"] is None
    assert (written["time"], written["seconds"]) == (1767225600.5, 0.004)


def test_hashes_are_keyed_and_one_per_text() -> None:
    written = row(entry(input=("one", "two")), KEY)
    expected = [hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest() for text in ("one", "two")]
    assert written["input"] is None and json.loads(written["input_hmac"]) == expected
    assert json.loads(row(entry(input="two"), KEY)["input_hmac"]) == expected[1] == hash_of("two", KEY)
    assert hash_of("two", bytes(32)) != expected[1]


def test_with_hashes_nothing_that_holds_texts_is_kept_of_an_answer() -> None:
    words = {"explanation": {"words": [{"text": "quiet"}]}, "similar": [{"texts": ["quiet"]}], "vector": [0.5]}
    error = {"error": {"detail": "quiet is too long"}}
    written = row(entry(input="A quiet triumph.", answer=ANSWER | words | error | {"abstained": True}), KEY)
    assert "quiet" not in "".join(map(str, written.values()))
    assert json.loads(written["answer"]) == ANSWER | {"abstained": True}


def test_every_row_can_be_stored() -> None:
    with_objects = {"prediction": object(), "probabilities": {1: complex(1, 2)}}
    odd = entry(request_id="\ud800", client="\x00ü", input=["\udfff", "\x00"], answer=with_objects, time=1)
    connection = sqlite3.connect(":memory:")
    [stored] = connection.execute(f"SELECT {', '.join('?' for _ in COLUMNS)}", row_of(odd, None))
    connection.close()
    assert stored[1] == "\\ud800" and json.loads(stored[6]) == ["\udfff", "\x00"]


def test_the_length_of_an_input_is_that_of_its_texts() -> None:
    assert [entry(input=given).characters for given in ("", "abc", ("ab", "cde"))] == [0, 3, 5]
