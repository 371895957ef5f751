"""JSON values: read so that nothing is lost silently, with errors that say what is wrong."""

from __future__ import annotations

import json
from typing import Any

from palbert.errors import DataError
from palbert.readers.headers import repeated


class _RepeatedKeyError(ValueError):
    """An object has one key twice, of which Python would keep the last value."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _RepeatedKeyError(f"an object has two values for '{repeated(key for key, _ in pairs)}'")
    return values


DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def read_value(text: str, start: int, *, place: str) -> tuple[Any, int]:
    """Return the JSON value that begins at a place of a text, and where it ends.

    Args:
        text: The text.
        start: Where the value begins.
        place: The file and line, for errors.

    Raises:
        json.JSONDecodeError: The text is not valid JSON; the caller knows best how to say where.
        DataError: A key occurs twice, values are nested too deeply, or a number has too many digits.
    """
    try:
        return DECODER.raw_decode(text, start)
    except json.JSONDecodeError:
        raise
    except _RepeatedKeyError as error:
        raise DataError(f"{place}: {error}.", hint="Rename or remove one of them.") from None
    except RecursionError:
        raise DataError(f"{place}: the values are nested too deeply.") from None
    except ValueError:  # Python limits the digits of a whole number
        raise DataError(
            f"{place}: a whole number has too many digits.", hint="Write it in quotes if it is a name."
        ) from None


def check_unicode(place: str, row: Any) -> None:
    """Raise DataError for a value that cannot be written as UTF-8; escapes in JSON allow such values."""
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{place}: expected valid Unicode, found half of a surrogate pair.") from None
    except RecursionError:
        raise DataError(f"{place}: the values are nested too deeply.") from None
