"""Claims: what reports say, as differences between rows of tables that can be computed."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import Field, ValidationError

from palbert.errors import RecipeError, did_you_mean
from palbert.recipe.explain import explain
from palbert.recipe.load import read_toml
from palbert.reproduction.tables import FOLDERS, load_table
from palbert.tasks.sources import Value

ROW = r"^[^:]+/[^:]+:[^:]+$"


class Claim(Value):
    """A row's score minus that of each of some others lies in a range."""

    text: str = Field(min_length=1)
    """The claim, as a sentence."""
    report: str = ""
    """Whose it is, and where it stands."""
    row: str = Field(pattern=ROW)
    """`table:row`, such as `li/table4:mean`."""
    than: tuple[str, ...] = Field(min_length=1)
    """The rows it is compared with, each by itself."""
    metric: str = "overall"
    """`overall`, a task, or another metric of one: `quora.f1`."""
    least: float = -math.inf
    """The smallest difference with which the claim holds."""
    most: float = math.inf
    """The largest one."""
    remark: str = ""
    """What a reader should know beside the figures."""


class Curves(Value):
    """Training losses of some rows, a plot for each task."""

    text: str = Field(min_length=1)
    """What they show."""
    tasks: tuple[str, ...] = Field(min_length=1)
    """The tasks, or sets such as `sst+cfimdb`."""
    rows: tuple[str, ...] = Field(min_length=1)
    """The rows in one plot, as `table:row`."""


class Scores(Value):
    """Scores of some rows side by side, every seed of each: a panel for each metric."""

    text: str = Field(min_length=1)
    """What they show."""
    metrics: tuple[str, ...] = Field(min_length=1)
    """`overall`, tasks, or other metrics of theirs: `quora.f1`."""
    rows: tuple[str, ...] = Field(min_length=1)
    """The rows, as `table:row`."""


class Answers(Value):
    """What a row answers: confusion matrices, labels given and predicted, numbers and their residuals."""

    text: str = Field(min_length=1)
    """Whose answers they are."""
    row: str = Field(pattern=ROW)
    """The row, as `table:row`."""


class Labels(Value):
    """How the labels of a task are spread in each of its training sets, and in dev."""

    text: str = Field(min_length=1)
    """What they show."""
    row: str = Field(pattern=ROW)
    """The row whose sets they are, as `table:row`."""
    task: str
    """The task, of classes."""


class Transfer(Value):
    """Each task alone beside all tasks together: what sharing an encoder gains or costs."""

    text: str = Field(min_length=1)
    """What is compared."""
    shared: str = Field(pattern=ROW)
    """The row with all tasks, as `table:row`."""
    alone: dict[str, str] = Field(min_length=1)
    """The row of each task by itself."""
    remark: str = ""
    """What a reader should know beside the figures."""


class Claims(Value):
    """The content of a file of claims."""

    intro: str = ""
    """What stands above all tables, as Markdown."""
    claims: dict[str, Claim]
    """The claims by name, in order."""
    curves: dict[str, Curves] = Field(default_factory=dict)
    """Plots of training losses, by the name of their files."""
    scores: dict[str, Scores] = Field(default_factory=dict)
    """Plots of scores, by the name of their files."""
    labels: dict[str, Labels] = Field(default_factory=dict)
    """Plots of labels, by the name of their files."""
    answers: dict[str, Answers] = Field(default_factory=dict)
    """Plots of answers, by the name of their files."""
    transfer: dict[str, Transfer] = Field(default_factory=dict)
    """Comparisons of shared encoders with those of one task."""
    data: dict[str, str] = Field(default_factory=dict)
    """What is in a data folder, by the name of the folder."""

    @property
    def rows(self) -> dict[str, tuple[str, ...]]:
        """All rows that are named, by place."""
        return {
            **{f"claims.{name}": (claim.row, *claim.than) for name, claim in self.claims.items()},
            **{f"curves.{name}": curves.rows for name, curves in self.curves.items()},
            **{f"scores.{name}": scores.rows for name, scores in self.scores.items()},
            **{f"labels.{name}": (labels.row,) for name, labels in self.labels.items()},
            **{f"answers.{name}": (answers.row,) for name, answers in self.answers.items()},
            **{f"transfer.{name}": (each.shared, *each.alone.values()) for name, each in self.transfer.items()},
        }


def find_claims() -> Path | None:
    """Return the file of claims in ./recipes, or that which comes with palbert."""
    return next((folder / "claims.toml" for folder in FOLDERS if (folder / "claims.toml").is_file()), None)


def load_claims(path: Path) -> Claims:
    """Read claims, and see that the rows they name are there."""
    try:
        loaded = Claims.model_validate(read_toml(path))
    except ValidationError as error:
        raise RecipeError(explain(error, str(path), Claims)) from None
    for place, rows in loaded.rows.items():
        for row in rows:
            table, _, own = row.partition(":")
            file = path.parent / f"{table}.toml"
            if not file.is_file():
                raise RecipeError(f"{path}: {place}: no table '{table}': there is no {file}.")
            known = load_table(file).spec.rows
            if own not in known:
                raise RecipeError(f"{path}: {place}: no row '{own}' in {table}.", hint=did_you_mean(own, known))
    for name, claim in loaded.claims.items():
        if claim.least == -math.inf and claim.most == math.inf:
            raise RecipeError(f"{path}: claims.{name}: every difference fits. Set least, most or both.")
        if claim.least > claim.most:
            raise RecipeError(
                f"{path}: claims.{name}: no difference fits: least is {claim.least:g}, most {claim.most:g}."
            )
    return loaded
