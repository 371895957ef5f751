"""Visible: texts in which nothing is left that a terminal would obey."""

from __future__ import annotations

import re

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, signs that turn the direction of a line, and halves of surrogate pairs.

Colours, window titles, hidden lines and answers that a terminal types by itself all begin with one of them; halves of
surrogate pairs stand for bytes of file names that are not UTF-8, and cannot be written.
"""
BREAKS = re.compile("[\t\n]")


def visible(text: str) -> str:
    r"""Return a text with control characters written as \u001b, which is also valid inside a JSON text."""
    return CONTROLS.sub(_escaped, text)


def visible_line(text: str) -> str:
    """Return the same for one line: tabs and line feeds are written out, too."""
    return BREAKS.sub(_escaped, visible(text))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
