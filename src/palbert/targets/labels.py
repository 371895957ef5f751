"""Labels: from what a file holds to the labels of a target."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from palbert.errors import DataError
from palbert.targets.decimals import Decimals, Spread, as_number, decimal_hint, label_key
from palbert.targets.target import Target

DROP = "drop"
REMEMBERED = 100_000
"""The most different labels that are kept in memory; there may be as many as rows."""


class LabelReader:
    """Turn the cells of a label column into labels; None means that the row is left out.

    Args:
        target: Says what a label is.
        labels: A mapping from what the file holds, or a factor such as "x4" on numbers.
        decimal: The decimal sign of numbers; learned from the labels unless given.
    """

    def __init__(
        self,
        target: Target,
        *,
        labels: Mapping[str, int | float | str] | str | None = None,
        decimal: Literal[".", ","] | None = None,
    ) -> None:
        self.target = target
        self.decimals = Decimals(decimal)
        self.spread = Spread()
        self.factor = read_factor(labels) if isinstance(labels, str) else 1.0
        self.mapping = None if labels is None or isinstance(labels, str) else _by_key(labels)
        self.known: dict[Any, Any] = {}

    def __call__(self, raw: str | list[str]) -> Any:
        """Return the label, or None if its row is left out; ValueError if there is no such label."""
        key = raw if isinstance(raw, str) else tuple(raw)
        if key not in self.known:  # few distinct labels, many rows
            if len(self.known) == REMEMBERED:
                self.known.clear()
            label = self.known[key] = self._read(raw)
            if isinstance(label, float):
                self.spread.add(label)
        return self.known[key]

    @property
    def signs(self) -> dict[str, dict[str, Any]]:
        """What the labels read so far have shown, as JSON has it; another reader can continue with it."""
        return {"decimals": dict(vars(self.decimals)), "spread": dict(vars(self.spread))}

    def restore(self, signs: Mapping[str, Mapping[str, Any]]) -> None:
        """Continue where another reader has stopped."""
        vars(self.decimals).update(signs.get("decimals", {}))
        vars(self.spread).update(signs.get("spread", {}))

    def check(self, path: str) -> None:
        """Raise DataError if the labels read so far, those of one file, can be understood in several ways."""
        self.decimals.check(path)
        if self.target.numeric:
            self.spread.check(path)

    def _read(self, raw: str | list[str]) -> Any:
        if not self.target.many:
            assert isinstance(raw, str)
            value = self._mapped(raw.strip())
            return None if value is None else self.target.read(value)
        items = raw if isinstance(raw, list) else self.target.split(raw)
        values = [self._mapped(item.strip()) for item in items if item.strip()]
        return None if None in values else self.target.read(values)

    def _mapped(self, raw: str) -> str | float | None:
        """Look a text up in the mapping, or multiply its number by the factor; None if its row is left out."""
        if self.mapping is not None:
            if label_key(raw) not in self.mapping:
                raise ValueError(f"one of {', '.join(self.mapping)}")
            mapped = self.mapping[label_key(raw)]
            return None if mapped == DROP else str(mapped)
        if self.target.numeric:
            raw = self.decimals(raw)
        if self.factor == 1:
            return raw
        number = as_number(raw)
        return math.nan if number is None else number * self.factor


def read_factor(text: str) -> float:
    """Read a factor such as "x4" or "×0.5"; raise ValueError for anything else."""
    factor = as_number(text.lstrip("×x* "))
    if factor is None:
        raise ValueError(f'expected a factor such as "x4", found {text!r}')
    return factor


class ClassIndex:
    """Find the index of a class by its name or its index; where names are numbers, by name only."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.indices = {label_key(name): index for index, name in enumerate(classes)}
        self.only_names = any(as_number(name) is not None for name in classes)

    def read(self, value: str | float) -> int:
        """Return the index; ValueError where there is no such class."""
        names = ", ".join(self.indices)
        name = label_key(str(value))
        if name in self.indices:
            return self.indices[name]
        if self.only_names:  # of classes named 1 to 5, 0 is none
            raise ValueError(f"one of {names}")
        number = as_number(value) if isinstance(value, str) else float(value)
        if number is None or not number.is_integer() or not 0 <= number < len(self.indices):
            raise ValueError(f"a label from 0 to {len(self.indices) - 1} or one of {names}")
        return int(number)


def _by_key(labels: Mapping[str, int | float | str]) -> dict[str, int | float | str]:
    return {label_key(raw): value for raw, value in labels.items()}


def unknown_label(
    path: str, line: int, error: ValueError, raw: object, *, target: Target | None = None, place: str = ""
) -> DataError:
    """Return the error of a cell that holds no label of the target.

    Args:
        path: The file.
        line: The line of the cell.
        error: What was expected.
        raw: What was found.
        target: The task's target, whose classes might lack one.
        place: Where the recipe describes the task, such as "tasks.sst.".
    """
    label = json.dumps(str(raw), ensure_ascii=False)
    known = json.dumps(target.classes[0], ensure_ascii=False) if target and target.classes else '"drop"'
    mapped = f'{place}labels = {{ {label} = {known} }}, where the value "drop" leaves its rows out'
    hint = f"Map it: {mapped}; a mapping has to name every label of the file."
    if target and len(target.classes) > 2 - target.many and isinstance(raw, str):
        classes = ", ".join(json.dumps(name, ensure_ascii=False) for name in (*target.classes, raw))
        hint = f"If it is a class of its own: {place}classes = [{classes}]. If not, map it: {mapped}."
    return DataError(f'{path}, line {line}: expected {error}, found "{raw}".', hint=decimal_hint(raw) or hint)
