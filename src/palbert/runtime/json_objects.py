"""JSON objects: files of settings and results that somebody else may have written or changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.errors import EncoderError, PalbertError

LARGEST = 1 << 26
"""Bytes of the largest file of settings; those that exist have a few thousand."""
DEEPEST = 100
"""Tables and lists inside each other; files that exist have up to ten. Recursive functions take many more."""
DOWNLOAD = "Download the encoder again."


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raise ValueError if it is none, is nested too deeply, or is not Unicode."""
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError("the values are nested too deeply") from error
    except UnicodeEncodeError as error:  # escapes allow it, but no message could show it
        raise ValueError("half of a surrogate pair is not a character") from error
    return value


def read_object(
    file: Path, *, raises: type[PalbertError] = EncoderError, hint: str | None = DOWNLOAD
) -> dict[str, Any]:
    """Return the JSON object in a file.

    Args:
        file: The file.
        raises: The class of the error if it cannot be read as one.
        hint: What to do then.
    """
    try:
        size = file.stat().st_size
        if size > LARGEST:
            raise raises(f"{file}: expected a file of settings, found {size:,} bytes.", hint=hint)
        values = parse_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise raises(f"{file}: cannot be read: {error.strerror or error}.") from error
    except PalbertError:
        raise
    except ValueError as error:
        raise raises(f"{file}: not valid JSON ({error}).", hint=hint) from error
    if not isinstance(values, dict):
        raise raises(f"{file}: expected a JSON object, found a {type(values).__name__}.", hint=hint)
    if is_deeper(values, DEEPEST):
        raise raises(f"{file}: the values are nested too deeply.", hint=hint)
    return values


def read_object_if_there(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is no such file."""
    return read_object(file) if file.is_file() else {}


def is_deeper(values: Any, most: int) -> bool:
    """Whether values have more tables and lists inside each other than `most`, or hold themselves."""
    level = [values]
    for _ in range(most):
        level = [
            item
            for each in level
            for item in (each.values() if isinstance(each, Mapping) else each)
            if isinstance(item, Mapping | list | tuple)
        ]
        if not level:
            return False
    return True
