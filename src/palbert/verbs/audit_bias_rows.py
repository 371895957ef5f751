"""Rows of an audit of bias: dev rows, pairs with the answers of a task, and what is compared of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palbert.bias.pairs import Pair
from palbert.bias.shifts import Answers
from palbert.bias.swapper import Row
from palbert.build import load_split
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import PalbertError
from palbert.inference.decisions import Decision
from palbert.recipe.load import load_run_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.targets import Target
from palbert.tasks.spec import Task
from palbert.verbs.predict import Predictor

SHARE_OF_RANGE = 0.1
"""A number counts as another answer if it moves by more than this share of its range."""
EXAMPLES = 12
"""Pairs of a task that the page shows."""

log = logging.getLogger(__name__)


def dev_rows(folder: RunFolder, tasks: Sequence[str], tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read the dev rows of tasks; warn of those that cannot be read, so that templates remain."""
    recipe = load_run_recipe(folder.recipe)
    found: dict[str, Dataset] = {}
    for name in tasks:
        try:
            own = recipe.model_copy(update={"tasks": {name: recipe.tasks[name]}})
            found |= load_split(own, "dev", tokenizer)
        except (PalbertError, KeyError, OSError) as error:
            log.warning("%s is audited on templates only: its dev rows cannot be read: %s", name, error)
    return found


def rows_sample(rows: Dataset | None, most: int, seed: int) -> Dataset | None:
    """Return a random choice of rows where there are more than `most`, in their order."""
    if rows is None or len(rows) <= most:
        return rows
    return rows.take(np.sort(np.random.default_rng(seed).choice(len(rows), size=most, replace=False)))


def compared_columns(target: Target) -> list[int]:
    """Return which of the target's log odds are compared: of two classes the second, which says all."""
    return [1] if len(target.classes) == 2 and not target.many else list(range(len(target.explained)))


@dataclass(frozen=True)
class Asked:
    """Pairs, and what a task answers to both rows of each."""

    task: Task
    pairs: Sequence[Pair]
    answers: Answers
    predicted: tuple[NDArray[Any], NDArray[Any]]
    """The predictions for the first and for the second row of each pair."""
    flip: str
    """What counts as another answer."""

    @property
    def unit(self) -> str:
        """What shifts are differences of."""
        return "number" if self.task.target.numeric else "log odds"

    @classmethod
    def of(cls, predictor: Predictor, task: Task, pairs: Sequence[Pair]) -> Asked:
        """Ask a task about both rows of every pair; a row that occurs several times is asked once."""
        places: dict[Row, int] = {}
        for pair in pairs:
            places.setdefault(pair.texts, len(places))
            places.setdefault(pair.other, len(places))
        values, predicted = ask(predictor, task, list(places))
        first = np.array([places[pair.texts] for pair in pairs], dtype=np.int64)
        second = np.array([places[pair.other] for pair in pairs], dtype=np.int64)
        both = predicted[first], predicted[second]
        flips, said = _flips(task.target, *both, everything=predicted)
        names = [task.target.explained[column] for column in compared_columns(task.target)]
        return cls(task, pairs, Answers(values[first], values[second], flips, names), both, said)

    def part(self, start: int, stop: int) -> Asked:
        """Return some neighbouring pairs."""
        own = self.answers
        answers = replace(own, first=own.first[start:stop], second=own.second[start:stop], flips=own.flips[start:stop])
        both = self.predicted[0][start:stop], self.predicted[1][start:stop]
        return replace(self, pairs=self.pairs[start:stop], answers=answers, predicted=both)

    def overall(self) -> dict[str, Any]:
        """Return figures over all pairs, whatever the group."""
        return {
            "pairs": len(self.pairs),
            "flip_rate": float(self.answers.flips.mean()),
            "mean_absolute_shift": float(np.abs(self.answers.first - self.answers.second).mean()),
        }

    def _changes(self) -> NDArray[np.float64]:
        changes: NDArray[np.float64] = np.abs(self.answers.first - self.answers.second).max(axis=1)
        return changes

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield every pair with both answers, for swaps.csv."""
        target, changes = self.task.target, self._changes()
        for number, pair in enumerate(self.pairs):
            answers = [target.show(target.answer(predicted[number])) for predicted in self.predicted]
            yield {
                "task": name, "from": pair.origin, "base": pair.base, "axis": pair.axis,
                "group": pair.first, "other_group": pair.second,
                "text1": pair.texts[0], "text2": pair.texts[1] if len(pair.texts) > 1 else "",
                "other_text1": pair.other[0], "other_text2": pair.other[1] if len(pair.other) > 1 else "",
                "answer": answers[0], "other_answer": answers[1],
                "flipped": "true" if self.answers.flips[number] else "false",
                "largest_change": f"{changes[number]:.4f}",
            }  # fmt: skip

    def examples(self) -> list[dict[str, Any]]:
        """Return the pairs whose answers change most, at most one of each base, for the page."""
        lines, seen = list(self.lines(self.task.name)), set()
        shown: list[dict[str, Any]] = []
        for number in np.argsort(-self._changes(), kind="stable"):
            if self.pairs[number].base not in seen and len(shown) < EXAMPLES:
                seen.add(self.pairs[number].base)
                shown.append(lines[number])
        return shown

    def for_areas(
        self, predictor: Predictor, dev: Dataset | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64], list[str]]:
        """Return which dev rows have which class, how sure the model is of it, and the classes.

        There are none for numbers, nor without labelled rows.
        """
        target = self.task.target
        if dev is None or dev.labels is None or target.numeric or not target.classes:
            return np.zeros((0, 0), dtype=np.bool_), np.zeros((0, 0)), []
        values, _ = ask(predictor, self.task, list(zip(*dev.texts, strict=True)))
        gold = target.gold(dev.labels)
        positive = gold == 1 if gold.ndim == 2 else gold[:, None] == np.arange(len(target.classes))
        columns = compared_columns(target)
        return positive[:, columns], values, [target.classes[column] for column in columns]


def ask(predictor: Predictor, task: Task, rows: Sequence[Row]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return what answers are decided on, (rows, quantities), and the predictions, (rows,) or (rows, classes)."""
    tokens = tuple(predictor.tokenizer(list(column)) for column in zip(*rows, strict=True))
    outputs = predictor.inference.outputs(task, tokens, title=f"auditing {task.name}")
    decoded = predictor.inference.decode(task, outputs)
    if task.target.numeric:
        return decoded.predicted[:, None].astype(np.float64), decoded.predicted
    decision = predictor.inference.decisions.get(task.name) or Decision.of(task)
    with torch.inference_mode():
        values = task.target.log_odds(decision.calibrated(outputs.double().cpu()))
    return values.numpy()[:, compared_columns(task.target)], decoded.predicted


def _flips(
    target: Target, first: NDArray[Any], second: NDArray[Any], *, everything: NDArray[Any]
) -> tuple[NDArray[np.bool_], str]:
    """Return which pairs get different answers, and what counts as such."""
    if not target.numeric:
        differ = first != second
        return (differ.any(axis=1) if differ.ndim == 2 else differ), "another answer"
    low, high = target.range or (float(everything.min()), float(everything.max()))
    least = SHARE_OF_RANGE * (high - low)
    return np.abs(first - second) > least, f"a change by more than {least:.3g}, a tenth of the range"
