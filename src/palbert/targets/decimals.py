"""Decimals: numbers as files write them, with a decimal point or a decimal comma."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from palbert.errors import DataError

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A number as files write it."""
LARGEST_ROUNDING = 1e-3
"""How far float32 may move a label, as a share of the distance from the least label to the largest."""
COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
"""A number with one comma, as in "3,5"."""
UNCLEAR = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
"""3.125 or 3125?"""
WHOLE = re.compile(r"-?(0|[1-9]\d*)\.0*", re.ASCII)
"""A whole number with a decimal point."""
GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII),
    ",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+", re.ASCII),
}
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


@dataclass
class Spread:
    """How far the labels of a file are apart, and how far float32 moves them."""

    low: float = math.inf
    high: float = -math.inf
    moved: float = 0.0
    """The most that float32 moves one of them."""

    def add(self, number: float) -> None:
        """Take a label into account."""
        self.low, self.high = min(self.low, number), max(self.high, number)
        self.moved = max(self.moved, abs(number - float(np.float32(number))))

    def check(self, path: str) -> None:
        """Raise DataError if labels are so close to each other that float32 would change their differences."""
        if self.low < self.high and self.moved > LARGEST_ROUNDING * (self.high - self.low):
            raise DataError(
                f"{path}: the labels from {self.low!s} to {self.high!s} are too close to each other for float32, which "
                f"would move some of them by {self.moved:.2g}.",
                hint="Subtract the least label from all of them, or write them in another unit.",
            )


def decimal_hint(raw: object) -> str | None:
    """Return what to write if a label that was refused is a number with a comma."""
    if isinstance(raw, str) and re.fullmatch(r"[+-]?[\d.,]*\d", raw.strip()) and "," in raw:
        return 'Write decimal = "," or decimal = ".", whichever is its decimal sign.'
    return None


def as_number(raw: str) -> float | None:
    """Return the finite number that a text writes, or None; stricter than float(): no 1_000, no inf."""
    text = raw.strip()
    number = float(text) if NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def label_key(raw: str) -> str:
    """Write the whole numbers 1, 1.0 and "1.00" alike; 01, 1e3 and 1.10 stay as they are, since they may be names."""
    return raw.split(".")[0] if WHOLE.fullmatch(raw) else raw
