"""Tables of results: rows that each are a recipe, beside what a report says they score."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from palbert.errors import RecipeError, did_you_mean
from palbert.recipe.explain import explain
from palbert.recipe.load import apply_override, make_recipe, read_toml
from palbert.recipe.schema import Recipe
from palbert.tasks.catalog import SAMPLES
from palbert.tasks.sources import Value
from palbert.tasks.spec import NAME

FOLDERS = (Path("recipes"), Path(__file__).parents[3] / "recipes")
"""Where tables are looked for by name: where the user is, and beside palbert's own source."""


class Row(Value):
    """One line of a table: a recipe, as it differs from another, and what a report says of it."""

    label: str = Field(min_length=1)
    """What the table calls the row."""
    like: str = ""
    """The row that this one differs from, of this table or, as "table3:2-annealed", of one beside it; the table's
    recipe unless given."""
    tasks: tuple[str, ...] = ()
    """Which of the tasks to keep; all of them unless given."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What differs, in the shape of a recipe; tables are merged, everything else is replaced."""
    reported: dict[str, float] = Field(default_factory=dict)
    """Scores of the report: by task, as `quora.f1` for another metric than its first, and `overall`."""
    note: str = ""
    """What a reader has to know about the reported scores, or about the row."""


class TableSpec(Value):
    """The content of a table's file."""

    title: str = Field(min_length=1)
    """One line: whose table, and what it compares."""
    source: str = ""
    """The report, and where in it."""
    recipe: str = "base.toml"
    """The recipe that rows differ from, beside the table."""
    rows: dict[Annotated[str, Field(pattern=NAME)], Row] = Field(min_length=1)
    """The rows by name, in order."""


@dataclass(frozen=True)
class Table:
    """A table that was read: its name, its file and its content."""

    name: str
    path: Path
    spec: TableSpec
    chosen: tuple[str, ...] = ()
    """The rows to run; all of them unless given."""

    def values(self, row: str, *, seen: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the nested values of a row's recipe, before the catalog's are put under them."""
        place = f"{self.path}: rows.{row}"
        if place in seen:
            raise RecipeError(f"{place}.like: these rows are like each other: {', '.join((*seen, place))}.")
        spec = self._row(row, place)
        if spec.like:
            table, _, other = spec.like.rpartition(":")
            home = load_table(self.path.parent / f"{table}.toml") if table else self
            values = home.values(other, seen=(*seen, place))
        else:
            values = read_toml(self._base())
        values = merged(values, spec.settings)
        unknown = [task for task in spec.tasks if task not in values["tasks"]]
        if unknown:
            raise RecipeError(
                f"{place}.tasks: unknown task '{unknown[0]}'. {did_you_mean(unknown[0], values['tasks'])}"
            )
        if spec.tasks:
            values["tasks"] = {name: values["tasks"][name] for name in spec.tasks}
        return values

    def recipe(
        self,
        row: str,
        *,
        seed: int = 0,
        data: str | None = None,
        encoder: str | None = None,
        smoke: bool = False,
        overrides: Sequence[str] = (),
    ) -> Recipe:
        """Return a row's recipe.

        Args:
            row: The name of the row.
            seed: Starts every random choice.
            data: A data folder in place of the table's own, "samples" or "hub".
            encoder: An encoder in place of the table's own.
            smoke: A few steps on the sample data, to see that the row runs.
            overrides: Settings as `key=value`, over all of these.
        """
        values = self.values(row)
        values.update(seed=seed, description=f"{self.spec.title}: {self.spec.rows[row].label}")
        if smoke:
            values = shrunk(values)
        given = [f"data={data}"] if data else []
        given += [f"encoder.name={encoder}"] if encoder else []
        for override in (*given, *overrides):
            apply_override(values, override)
        place = f"{self.path}: rows.{row}"
        recipe = make_recipe(values, folder=self.path.parent, name=place)
        for key in self.spec.rows[row].reported:
            task = key.partition(".")[0]
            if key != "overall" and task not in recipe.tasks:
                raise RecipeError(f"{place}.reported: unknown task '{task}'. {did_you_mean(task, recipe.tasks)}")
        return recipe

    def _row(self, row: str, place: str) -> Row:
        if row not in self.spec.rows:
            raise RecipeError(f"{place}: no such row. {did_you_mean(row, self.spec.rows)}")
        return self.spec.rows[row]

    def _base(self) -> Path:
        path = self.path.parent / self.spec.recipe
        if not path.is_file():
            raise RecipeError(f"{self.path}: recipe: no such file: {path}.")
        return path


def load_table(source: str | Path) -> Table:
    """Read a table by its file, or by name: `sullivan_kumar/table3`."""
    path = _find(source)
    try:
        spec = TableSpec.model_validate(read_toml(path))
    except ValidationError as error:
        raise RecipeError(explain(error, str(path), TableSpec)) from None
    return Table(name=f"{path.resolve().parent.name}/{path.stem}", path=path, spec=spec)


def load_tables(names: Sequence[str | Path]) -> list[Table]:
    """Read several tables; `all` stands for all that are known by name, `table3:1-pals` for one row of a table."""
    found: dict[Path, Table] = {}
    for name in names:
        for each in [path for _, path in known_tables()] if str(name) == "all" else [name]:
            table = _load_chosen(each)
            before = found.setdefault(table.path.resolve(), table)
            both = before.chosen and table.chosen  # no choice stands for all rows
            chosen = tuple(dict.fromkeys(before.chosen + table.chosen)) if both else ()
            found[table.path.resolve()] = replace(before, chosen=chosen)
    return list(found.values())


def _load_chosen(source: str | Path) -> Table:
    table, _, row = str(source).rpartition(":")
    if not table or Path(source).is_file():
        return load_table(source)
    loaded = load_table(table)
    loaded.values(row)  # refuses a row that is not there
    return replace(loaded, chosen=(row,))


def known_tables() -> list[tuple[str, Path]]:
    """Return name and file of all tables in ./recipes, or of those that come with palbert."""
    for folder in FOLDERS:
        found = [path for path in sorted(folder.glob("*/*.toml")) if "rows" in read_toml(path)]
        if found:
            return [(f"{path.parent.name}/{path.stem}", path) for path in found]
    return []


def _find(source: str | Path) -> Path:
    if Path(source).is_file():
        return Path(source)
    known = dict(known_tables())
    if str(source) not in known:
        raise RecipeError(
            f"No table '{source}': no such file, and none of that name.", hint=did_you_mean(str(source), known)
        )
    return known[str(source)]


def merged(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings over values: tables are merged, everything else is replaced."""
    result = copy.deepcopy(dict(values))
    for key, setting in settings.items():
        own = result.get(key)
        if isinstance(own, Mapping) and isinstance(setting, Mapping):
            result[key] = merged(own, setting)
        else:
            result[key] = copy.deepcopy(setting)
    return result


def shrunk(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make a recipe a matter of seconds: sample data, the small encoder, a few short steps."""
    length = {"epochs": 1, "steps_per_epoch": 4}
    small = {"batch_size": 4, "max_length": 64}
    result = merged(
        values,
        {
            "data": "samples",
            "encoder": {"name": "minilm"},
            "training": {**length, "batch_size": 4, "log_every": 1},
            "run": {"tensorboard": False},
        },
    )
    if "cfimdb" in result["tasks"]:  # the sample rows have no reviews to be scored on
        result["tasks"]["cfimdb"].update(train="cfimdb-train.tsv", dev="cfimdb-train.tsv")
    for name, task in result["tasks"].items():
        task.update(small)
        for key in ("train", "drop_overlap") if name in SAMPLES else ():  # the sample rows take the place of files
            task.pop(key, None)
        for extra in task.get("extra", {}).values():
            if "train" in extra and name in SAMPLES:
                extra.update(train=f"{name}-train.tsv")
                for key in ("text", "label", "labels"):
                    extra.pop(key, None)
            extra.update(small)
    for phase in result.get("phases", ()):
        own = phase.get("training", {})
        # Rows that differ in the length of a phase still do.
        phase["training"] = {**own, **length, "epochs": min(own.get("epochs", 1), 2)}
    return result
