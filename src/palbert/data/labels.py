"""Labels: from what a file holds to class indices and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from palbert.errors import DataError
from palbert.tasks.choices import Target

DROP = "drop"


class LabelReader:
    """Turn raw labels into class indices or numbers; None means: leave the row out.

    A raw label may be a class name or its index; where names are numbers, the name alone.
    A mapping is looked up first; a factor such as "x4" multiplies the raw number first.
    """

    def __init__(
        self,
        target: Target,
        *,
        classes: Sequence[str] = (),
        range: tuple[float, float] | None = None,
        labels: Mapping[str, int | float | str] | str | None = None,
    ) -> None:
        self.target = target
        self.classes = {_key(name): index for index, name in enumerate(classes)}
        self.indices = not any(_number(name) is not None for name in classes)
        self.range = range
        self.factor = float(labels.lstrip("×x* ")) if isinstance(labels, str) else 1.0
        self.mapping = None if labels is None or isinstance(labels, str) else _normal(labels)
        self.known: dict[str, int | float | None] = {}

    def __call__(self, raw: str) -> int | float | None:
        """Return the label, or None if its row is to be dropped; ValueError if it is neither."""
        if raw not in self.known:  # few distinct labels, many rows
            self.known[raw] = self._read(raw.strip())
        return self.known[raw]

    def _read(self, raw: str) -> int | float | None:
        if self.mapping is not None:
            if _key(raw) not in self.mapping:
                raise ValueError(f"one of {', '.join(self.mapping)}")
            mapped = self.mapping[_key(raw)]
            if mapped == DROP:
                return None
            raw = str(mapped)
        number = _number(raw)
        if number is not None:
            number *= self.factor
        return self._number(number) if self.target == "number" else self._class(raw, number)

    def _number(self, number: float | None) -> float:
        low, high = self.range or (-math.inf, math.inf)
        if number is None or not low <= number <= high:
            raise ValueError("a number" if self.range is None else f"a number from {low:g} to {high:g}")
        return number

    def _class(self, raw: str, number: float | None) -> int:
        if self.factor == 1 and _key(raw) in self.classes:
            return self.classes[_key(raw)]
        names = ", ".join(self.classes)
        if self.factor == 1 and not self.indices:  # of classes named 1 to 5, 0 is none
            raise ValueError(f"one of {names}")
        if number is None or not number.is_integer() or not 0 <= number < len(self.classes):
            raise ValueError(f"a label from 0 to {len(self.classes) - 1} or one of {names}")
        return int(number)


def _number(raw: str) -> float | None:
    try:
        number = float(raw)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _key(raw: str) -> str:
    """Write 1, 1.0 and "1.00" alike."""
    number = _number(raw)
    return raw if number is None else repr(number).removesuffix(".0")


def _normal(labels: Mapping[str, int | float | str]) -> dict[str, int | float | str]:
    return {_key(raw): value for raw, value in labels.items()}


def outside(path: str, line: int, error: ValueError, raw: str) -> DataError:
    """Return the error of a label that is not in the map."""
    return DataError(
        f'{path}, line {line}: expected {error}, found "{raw}".',
        hint='Map it with labels = {...}; the value "drop" leaves its rows out.',
    )
