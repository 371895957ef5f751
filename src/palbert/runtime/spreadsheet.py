"""Spreadsheet cells: texts that would become formulas or other texts, escaped so that they can be restored."""

from __future__ import annotations

import re

FORMULA = re.compile(r"[\s'\"]*[=+\-@\t\r\n＝＋－＠]")
"""How a text begins that may become a formula: behind spaces and quotes, which some programs remove, and in full width.

See https://owasp.org/www-community/attacks/CSV_Injection.
"""
ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
"""The beginning of what a workbook takes for a sign by its number, as in "_x000D_"."""
ESCAPED = re.compile(r"_x000D_|_x005F_(?=x[0-9A-Fa-f]{4}_)")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def safe_cell(text: str) -> str:
    """Return a text with an apostrophe in front if a spreadsheet program may compute it; numbers stay numbers."""
    return f"'{text}" if _is_formula(text) else text


def original_cell(cell: str) -> str:
    """Return the text that `safe_cell` was given."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None


def workbook_cell(text: str) -> str:
    """Return a text as a workbook stores it: XML has no carriage return, so it is named by its number.

    See ST_Xstring in ISO/IEC 29500-1, 22.9.2.19.
    """
    return ESCAPE.sub("_x005F_", text).replace("\r", "_x000D_")


def text_of_workbook_cell(cell: str) -> str:
    """Return the text that `workbook_cell` was given, or that a spreadsheet program has saved so."""
    return ESCAPED.sub(lambda found: "\r" if found[0] == "_x000D_" else "_", cell) if "_x" in cell else cell
