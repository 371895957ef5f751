"""HeldOut: which training rows are set aside as dev, where a task has no dev file. A value, no torch."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from palbert.tasks.sources import LARGEST_SEED, Value

AUTO = "auto"
PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
FOLD = re.compile(r"\s*fold\s+(\d+)\s+of\s+(\d+)\s*")


class HeldOut(Value):
    """Training rows that are set aside as dev: a share, a number of rows, or one of several equal parts.

    With neither, it is a tenth: at most 5,000 rows, and a few of every class.
    """

    share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the training rows; `dev = "10%"` and `dev = 0.1` stand for 0.1."""
    rows: int | None = Field(default=None, ge=1)
    """Number of rows; `dev = 500` stands for 500."""
    fold: int | None = Field(default=None, ge=1)
    """The fold that is set aside, from 1; `dev = "fold 1 of 5"`."""
    folds: int | None = Field(default=None, ge=2)
    """The number of equal parts that the rows are divided into."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Seed of the random choice; not the recipe's, so that runs with several seeds have the same dev rows."""

    @model_validator(mode="after")
    def _check(self) -> HeldOut:
        given = [name for name in ("share", "rows", "fold") if getattr(self, name) is not None]
        problem = ""
        if len(given) > 1:
            problem = f"give one of share, rows and fold, found {' and '.join(given)}"
        elif (self.fold is None) != (self.folds is None):
            problem = "fold and folds belong together, as in fold 1 of 5"
        elif self.fold is not None and self.folds is not None and self.fold > self.folds:
            problem = f"expected a fold from 1 to {self.folds}, found {self.fold}"
        if problem:
            raise PydanticCustomError("contradiction", "{problem}", {"problem": problem, "problems": [problem]})
        return self

    @property
    def short(self) -> str | int | dict[str, Any]:
        """What a recipe writes as `dev`, which is read as the same value."""
        if self.seed:
            return self.model_dump(exclude_none=True)
        if self.rows is not None:
            return self.rows
        if self.fold is not None:
            return f"fold {self.fold} of {self.folds}"
        return AUTO if self.share is None else f"{100 * self.share:.15g}%"


def read_held_out(dev: Any) -> Any:
    """Return the settings of a HeldOut if `dev` asks for one, and None if it names files."""
    if isinstance(dev, bool):
        return None
    if isinstance(dev, int):
        return {"rows": dev}
    if isinstance(dev, float):
        return {"share": dev}
    if isinstance(dev, dict):
        return None if "path" in dev else dev
    if not isinstance(dev, str):
        return None
    if dev.strip() == AUTO:
        return {}
    if percent := PERCENT.fullmatch(dev):
        return {"share": float(percent[1]) / 100}
    if fold := FOLD.fullmatch(dev):
        return {"fold": int(fold[1]), "folds": int(fold[2])}
    return None
