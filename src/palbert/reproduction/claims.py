"""Claims: statements of reports as differences between rows that can be computed, and the plots of the results page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from palbert.errors import did_you_mean
from palbert.recipe.explain import explain, refusal
from palbert.recipe.load import read_toml
from palbert.reproduction.tables import FOLDERS, load_table
from palbert.tasks.sources import Value

ROW = r"^[^:]+/[^:]+:[^:]+$"


class Claim(Value):
    """The score of a row minus the score of each of some others lies in a range."""

    text: str = Field(min_length=1)
    """The claim, as a sentence."""
    report: str = ""
    """Who claims it, and where."""
    row: str = Field(pattern=ROW)
    """`table:row`, such as `li/table4:mean`."""
    than: tuple[str, ...] = Field(min_length=1)
    """The rows it is compared with, one by one."""
    metric: str = "overall"
    """`overall`, a task, or another metric of a task: `quora.f1`."""
    least: float = -math.inf
    """The smallest difference for which the claim holds."""
    most: float = math.inf
    """The largest difference for which the claim holds."""
    remark: str = ""
    """What a reader should know in addition to the numbers."""


class Curves(Value):
    """Training losses of several rows, one plot per task."""

    text: str = Field(min_length=1)
    """What the plots show."""
    tasks: tuple[str, ...] = Field(min_length=1)
    """The tasks, or sets such as `sst+cfimdb`."""
    rows: tuple[str, ...] = Field(min_length=1)
    """The rows in one plot, as `table:row`."""


class Scores(Value):
    """Scores of every seed of several rows, one panel per metric."""

    text: str = Field(min_length=1)
    """What the plot shows."""
    metrics: tuple[str, ...] = Field(min_length=1)
    """`overall`, tasks, or other metrics of tasks: `quora.f1`."""
    rows: tuple[str, ...] = Field(min_length=1)
    """The rows, as `table:row`."""


class Answers(Value):
    """Predictions of one row: confusion matrices, labels given and predicted, numbers and their residuals."""

    text: str = Field(min_length=1)
    """What the plots show."""
    row: str = Field(pattern=ROW)
    """The row, as `table:row`."""


class Labels(Value):
    """The label distribution of a task in each of its training sets, and in dev."""

    text: str = Field(min_length=1)
    """What the plot shows."""
    row: str = Field(pattern=ROW)
    """The row whose sets are shown, as `table:row`."""
    task: str
    """A task with classes."""


class Transfer(Value):
    """Each task alone compared with all tasks together: what sharing an encoder gains or costs."""

    text: str = Field(min_length=1)
    """What is compared."""
    shared: str = Field(pattern=ROW)
    """The row with all tasks, as `table:row`."""
    alone: dict[str, str] = Field(min_length=1)
    """The row that trains each task alone."""
    remark: str = ""
    """What a reader should know in addition to the numbers."""


class Claims(Value):
    """The content of a file of claims."""

    intro: str = ""
    """The introduction of the results page, as Markdown."""
    claims: dict[str, Claim]
    """The claims by name, in order."""
    curves: dict[str, Curves] = Field(default_factory=dict)
    """Plots of training losses, by the name of their files."""
    scores: dict[str, Scores] = Field(default_factory=dict)
    """Plots of scores, by the name of their files."""
    labels: dict[str, Labels] = Field(default_factory=dict)
    """Plots of labels, by the name of their files."""
    answers: dict[str, Answers] = Field(default_factory=dict)
    """Plots of predictions, by the name of their files."""
    transfer: dict[str, Transfer] = Field(default_factory=dict)
    """Comparisons of shared encoders with single-task ones."""
    data: dict[str, str] = Field(default_factory=dict)
    """Descriptions of data folders, by the name of the folder."""

    @property
    def rows(self) -> dict[str, tuple[str, ...]]:
        """All rows that the file names, by the place that names them."""
        return {
            **{f"claims.{name}": (claim.row, *claim.than) for name, claim in self.claims.items()},
            **{f"curves.{name}": curves.rows for name, curves in self.curves.items()},
            **{f"scores.{name}": scores.rows for name, scores in self.scores.items()},
            **{f"labels.{name}": (labels.row,) for name, labels in self.labels.items()},
            **{f"answers.{name}": (answers.row,) for name, answers in self.answers.items()},
            **{f"transfer.{name}": (each.shared, *each.alone.values()) for name, each in self.transfer.items()},
        }


def find_claims() -> Path | None:
    """Return the file of claims in ./recipes, or the one that comes with palbert."""
    return next((folder / "claims.toml" for folder in FOLDERS if (folder / "claims.toml").is_file()), None)


def load_claims(path: Path) -> Claims:
    """Read a file of claims; refuse rows that do not exist and ranges that say nothing, all together."""
    try:
        loaded = Claims.model_validate(read_toml(path))
    except ValidationError as error:
        raise refusal(str(path), explain(error.errors(), Claims)) from None
    problems = [*_missing_rows(loaded, path.parent), *_useless_ranges(loaded)]
    if problems:
        raise refusal(str(path), problems)
    return loaded


def _missing_rows(claims: Claims, folder: Path) -> Iterator[str]:
    for place, rows in claims.rows.items():
        for name in rows:
            table, _, row = name.partition(":")
            file = folder / f"{table}.toml"
            if not file.is_file():
                yield f"{place}: no table '{table}': there is no {file}."
            elif row not in (known := load_table(file).spec.rows):
                yield f"{place}: no row '{row}' in {table}. {did_you_mean(row, known)}"


def _useless_ranges(claims: Claims) -> Iterator[str]:
    for name, claim in claims.claims.items():
        if claim.least == -math.inf and claim.most == math.inf:
            yield f"claims.{name}: every difference fits. Set least, most or both."
        if claim.least > claim.most:
            yield f"claims.{name}: no difference fits: least is {claim.least:g}, most is {claim.most:g}."
