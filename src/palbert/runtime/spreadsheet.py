"""Spreadsheet cells: texts that would become formulas, escaped so that they can be restored."""

from __future__ import annotations

import re

FORMULA = re.compile(r"[\s'\"]*[=+\-@\t\r\n＝＋－＠]")
"""How a text begins that may become a formula: behind spaces and quotes, which some programs remove, and in full width.

See https://owasp.org/www-community/attacks/CSV_Injection.
"""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def safe_cell(text: str) -> str:
    """Return a text with an apostrophe in front if a spreadsheet program may compute it; numbers stay numbers."""
    return f"'{text}" if _is_formula(text) else text


def original_cell(cell: str) -> str:
    """Return the text that `safe_cell` was given."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None
