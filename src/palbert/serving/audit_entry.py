"""One entry of the audit log, and what of it is kept: texts, or keyed hashes of texts."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

Keep = Literal["texts", "hashes", "off"]
COLUMNS = (
    *("time", "request_id", "client", "run", "fingerprint", "task"),
    *("input", "input_hmac", "answer", "seconds"),
)
"""The columns of the table, in the order of `row_of`."""
WITHOUT_TEXTS = ("prediction", "probabilities", "cut", "abstained")
"""What is kept of an answer together with hashes: words, neighbours, vectors and errors would give texts away."""

Value = str | float | None


class AuditEntry(NamedTuple):
    """An input and its answer. Nothing in it may be changed after it was handed over.

    `time` is in seconds since 1970, `client` the name of an API key or an address, `input` a text or a pair of texts,
    and `seconds` how long the answer took.
    """

    time: float
    request_id: str
    client: str
    run: str
    fingerprint: str
    task: str
    input: str | Sequence[str]
    answer: Mapping[str, Any]
    seconds: float

    @property
    def characters(self) -> int:
        """How long the input is."""
        return len(self.input) if isinstance(self.input, str) else sum(map(len, self.input))


def row_of(entry: AuditEntry, key: bytes | None) -> tuple[Value, ...]:
    """Return the values of COLUMNS.

    Args:
        entry: The entry.
        key: With which texts are hashed. None: they are kept as they are.
    """
    given, answer = entry.input, entry.answer
    if key is None:
        kept, hashed = _json(given), None
    else:
        kept, hashed = None, _json(hash_of(given, key) if isinstance(given, str) else [hash_of(t, key) for t in given])
        answer = {name: answer[name] for name in WITHOUT_TEXTS if name in answer}
    return (
        float(entry.time),
        *(_storable(str(value)) for value in entry[1:6]),
        kept,
        hashed,
        _json(answer),
        float(entry.seconds),
    )


def hash_of(text: str, key: bytes) -> str:
    """Return the HMAC-SHA256 of a text, in hexadecimal digits."""
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def _json(value: Any) -> str:
    return _storable(_encode(value))


def _storable(text: str) -> str:
    r"""Write halves of surrogate pairs, which UTF-8 does not have, as \ud800: what they are called in JSON."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
