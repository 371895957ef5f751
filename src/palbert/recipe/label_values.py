"""Label values: what the label column of training files holds, and the target and classes that follow from it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palbert.errors import RecipeError
from palbert.readers import Chunk, Dialect, read_chunks
from palbert.targets.decimals import Decimals, as_number, label_key
from palbert.targets.labels import DROP, read_factor
from palbert.tasks.sources import SPLIT_NAMES, Source

log = logging.getLogger(__name__)

MOST_CLASSES = 1000
FEW_CLASSES = 20
"""More classes than MOST_CLASSES are refused, and so are more than FEW_CLASSES if most of them have a single row."""


@dataclass(frozen=True)
class LabelValues:
    """How often each label occurs in the training rows."""

    counts: Counter[str]
    """Rows by label; numbers are written alike, "1" for 1.0."""
    lists: bool = False
    """Whether some rows have lists of labels."""

    @classmethod
    def of(
        cls,
        files: Sequence[Source],
        *,
        general: Dialect,
        label: str,
        mapping: Any = None,
        split: str | None = None,
        separator: str | None = None,
    ) -> LabelValues:
        """Count the labels of files.

        Args:
            files: The training files.
            general: How they write their rows, where they do not say it themselves.
            label: The label column, of files without one of their own.
            mapping: The label mapping, or a factor, of files without one of their own.
            split: A column that says which rows belong to train.
            separator: What stands between several labels of a cell, if there can be several.
        """
        counts: Counter[str] = Counter()
        lists = False
        for file in files:
            mapped = file.labels if file.labels is not None else mapping
            for chunk in read_chunks(file.path, dialect=file.dialect_over(general)):
                cells = list(_cells(chunk, file.label or label, split)) if chunk.columns else []
                lists = lists or any(isinstance(cell, list) for cell in cells)
                for cell in cells:
                    counts.update(_labels(cell, mapped, separator))
        return cls(counts, lists)

    def fit(self, classes: Sequence[str]) -> bool:
        """Whether all labels are names or indices of these classes."""
        return self.counts.keys() <= {*classes, *map(str, range(len(classes)))}


def target_of(labels: LabelValues) -> str:
    """Return the target that labels suggest: lists are several classes, fractions are numbers, others are classes."""
    if labels.lists:
        return "multilabel"
    numbers = [as_number(Decimals(None)(value)) for value in labels.counts]  # 3,5 is a number, too
    fractions = any(number is not None and not number.is_integer() for number in numbers)
    return "number" if fractions and None not in numbers else "classes"


def classes_of(labels: LabelValues) -> list[str]:
    """Return the labels in order: numbers by value, others by name."""
    if all(as_number(value) is not None for value in labels.counts):
        return sorted(labels.counts, key=float)
    return sorted(labels.counts, key=lambda name: (name.casefold(), name))


def check_classes(labels: LabelValues, *, place: str, column: str, many: bool) -> None:
    """Raise RecipeError if labels are too many to be classes, or too few; warn if some have a single row.

    Args:
        labels: The labels of the training rows.
        place: Where the recipe describes the task, for messages.
        column: The label column.
        many: Whether a row may have any number of classes.
    """
    if many and labels.counts.keys() <= {"0", "1"} and labels.lists:
        raise RecipeError(
            f"{place}.label: the lists in '{column}' hold a 0 or 1 for each class. Write the names or numbers of the "
            "classes that a row has."
        )
    different, rows = len(labels.counts), sum(labels.counts.values())
    if different < (1 if many else 2):
        found = f"only '{next(iter(labels.counts))}'" if labels.counts else "no label"
        raise RecipeError(f"{place}.classes: expected two or more classes in the column '{column}', found {found}.")
    single = sum(count == 1 for count in labels.counts.values())
    if different > MOST_CLASSES or (different > FEW_CLASSES and single * 2 > different):
        numbers = all(as_number(value) is not None for value in labels.counts)
        raise RecipeError(
            f"{place}.label: the column '{column}' has {different:,} different values in {rows:,} rows, {single:,} of "
            "them once, which cannot be classes. "
            + ('Set target = "number", or' if numbers else "Set")
            + ' label = "another column", or list the classes: classes = [...].'
        )
    if single:
        rare = [name for name, count in labels.counts.items() if count == 1]
        shown = ", ".join(rare[:FEW_CLASSES]) + ", …" * (single > FEW_CLASSES)
        text = "%s: %d of %d classes have a single row, too few to be both trained and scored: %s"
        log.warning(text, place, single, different, shown)


def _cells(chunk: Chunk, label: str, split: str | None) -> Iterator[str | list[str]]:
    """Yield the cells of training rows that hold a label."""
    lists = any(isinstance(cell, list) for cell in chunk.columns.get(label, ()))
    labels = chunk.labels(label, lists=lists)
    marks = chunk.column(split) if split else ["train"] * len(labels)
    for cell, mark in zip(labels, marks, strict=True):
        if cell is not None and SPLIT_NAMES.get((mark or "").strip().lower()) == "train":
            yield cell


def _labels(cell: str | list[str], mapping: Any, separator: str | None) -> list[str]:
    """Return the labels of one cell as the task sees them; none if its row is left out."""
    items = cell if isinstance(cell, list) else cell.split(separator) if separator else [cell]
    mapped = [_mapped(item.strip(), mapping) for item in items if item.strip()]
    return [] if isinstance(mapping, Mapping) and DROP in mapped else mapped


def _mapped(label: str, mapping: Any) -> str:
    if isinstance(mapping, Mapping):
        known = {label_key(str(key)): str(value) for key, value in mapping.items()}
        return label_key(known.get(label_key(label), DROP))  # an unknown label is an error when its row is read
    number = as_number(label)
    if isinstance(mapping, str) and number is not None:
        try:
            return label_key(repr(number * read_factor(mapping)))
        except ValueError:
            return label_key(label)  # not a factor, which is explained when the recipe is checked
    return label_key(label)
