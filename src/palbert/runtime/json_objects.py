"""JSON objects: settings that somebody else wrote, read from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palbert.errors import EncoderError

LARGEST = 1 << 26
"""Bytes of the largest file of settings; those that exist have a few thousand."""


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of an encoder; raise EncoderError if it cannot be read as one."""
    try:
        size = file.stat().st_size
        if size > LARGEST:
            raise EncoderError(
                f"{file}: expected a file of settings, found {size:,} bytes.", hint="Download the encoder again."
            )
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EncoderError(f"{file}: cannot be read: {error.strerror or error}.") from error
    except (RecursionError, ValueError) as error:
        if isinstance(error, EncoderError):
            raise
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise EncoderError(f"{file}: not valid JSON ({reason}).", hint="Download the encoder again.") from error
    if not isinstance(values, dict):
        raise EncoderError(f"{file}: expected a JSON object, found a {type(values).__name__}.")
    return values


def read_object_if_there(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is no such file."""
    return read_object(file) if file.is_file() else {}
