"""Decimals: numbers as files write them, with a decimal point or a decimal comma."""

from __future__ import annotations

import math
import re
from typing import Literal

from palbert.errors import DataError

COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
"""A number with one comma, as in "3,5"."""
UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
"""3.125 or 3125?"""
WHOLE = re.compile(r"-?(0|[1-9]\d*)\.0*")
"""A whole number with a decimal point."""
GROUPED = {".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?"), ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+")}
"""Numbers with groups of three digits, by the decimal sign."""


class Decimals:
    """Write the numbers of one file as Python does; which sign is the decimal one is learned unless it is given.

    Args:
        decimal: The decimal sign.
    """

    def __init__(self, decimal: Literal[".", ","] | None) -> None:
        self.decimal = decimal
        self.pointed: str | None = None
        """A number with a point."""
        self.clear: str | None = None
        """A number with a comma that can only be a decimal comma."""
        self.unclear: str | None = None
        """A number whose comma may also separate thousands."""

    def __call__(self, raw: str) -> str:
        """Return a number with a decimal point; what is not a number is returned as it is."""
        if "," not in raw:
            self.pointed = raw if "." in raw else self.pointed
            if self.decimal == "," and re.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}", raw):
                raise ValueError("a number with a decimal comma")  # 3.125 in a workbook, or 3125 with a group?
            return raw
        if self.decimal != "," and GROUPED["."].fullmatch(raw) and (self.decimal == "." or "." in raw):
            return raw.replace(",", "") if self.decimal == "." else raw
        if self.decimal == "," and GROUPED[","].fullmatch(raw):
            return raw.replace(".", "").replace(",", ".")
        if self.decimal == "." or not COMMA.fullmatch(raw):
            return raw
        if UNCLEAR.fullmatch(raw):
            self.unclear = raw
        else:
            self.clear = raw
        return raw.replace(",", ".")

    def check(self, path: str) -> None:
        """Raise DataError if the numbers of a file do not show which sign is the decimal one."""
        comma = self.clear or self.unclear
        if self.decimal is not None or comma is None:
            return
        if self.pointed is not None:
            raise DataError(
                f'{path}: expected labels with one decimal sign, found "{self.pointed}" and "{comma}".',
                hint='Write decimal = "," or decimal = ".".',
            )
        if self.clear is None:
            point = comma.replace(",", ".")
            raise DataError(
                f'{path}: the label "{comma}" may be {point} or {comma.replace(",", "")}.',
                hint=f'Write decimal = "," for {point}, or decimal = "." for the other.',
            )


def decimal_hint(raw: object) -> str | None:
    """Return what to write if a label that was refused is a number with a comma."""
    if isinstance(raw, str) and re.fullmatch(r"[+-]?[\d.,]*\d", raw.strip()) and "," in raw:
        return 'Write decimal = "," or decimal = ".", whichever is its decimal sign.'
    return None


def as_number(raw: str) -> float | None:
    """Return the finite number that a text writes, if it is one; 1_000 is none, though Python reads it."""
    try:
        number = float(raw)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in raw else None


def label_key(raw: str) -> str:
    """Write the whole numbers 1, 1.0 and "1.00" alike; 01, 1e3 and 1.10 stay as they are, since they may be names."""
    return raw.split(".")[0] if WHOLE.fullmatch(raw) else raw
