"""Table files: rows that are recipes, with the scores that a report gives for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from palbert.errors import RecipeError, did_you_mean
from palbert.recipe.explain import explain, refusal
from palbert.recipe.load import make_recipe, read_toml
from palbert.recipe.overrides import apply_override
from palbert.recipe.schema import Recipe
from palbert.reproduction.settings import merge, shrink
from palbert.tasks.sources import Value
from palbert.tasks.spec import NAME

FOLDERS = (Path("recipes"), Path(__file__).parents[3] / "recipes")
"""Where tables are looked up by name: in the current folder, and next to palbert's own source."""


class RowSpec(Value):
    """One row of a table: how its recipe differs from another one, and its reported scores."""

    label: str = Field(min_length=1)
    """The name of the row for readers."""
    like: str = ""
    """The row that this one differs from, in this table or, as "table3:2-annealed", in one of the same folder;
    the table's recipe unless given."""
    tasks: tuple[str, ...] = ()
    """The tasks to keep; all of them unless given."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The settings that differ, in the shape of a recipe; tables are merged, everything else is replaced."""
    reported: dict[str, float] = Field(default_factory=dict)
    """Reported scores: by task for its first metric, as `quora.f1` for another one, and `overall`."""
    note: str = ""
    """What a reader should know about the reported scores, or about the row."""


class TableSpec(Value):
    """The content of a table's file."""

    title: str = Field(min_length=1)
    """One line: whose table it is, and what it compares."""
    source: str = ""
    """The report, and the place in it."""
    recipe: str = "base.toml"
    """The recipe that rows differ from, in the same folder."""
    rows: dict[Annotated[str, Field(pattern=NAME)], RowSpec] = Field(min_length=1)
    """The rows by name, in order."""


@dataclass(frozen=True)
class Table:
    """A table file that was read."""

    name: str
    path: Path
    spec: TableSpec
    chosen: tuple[str, ...] = ()
    """The rows to run; all of them unless given."""

    def values(self, row: str, *, seen: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the nested values of a row's recipe, without the catalog's defaults."""
        place = f"{self.path}: rows.{row}"
        if place in seen:
            raise RecipeError(f"{place}.like: these rows refer to each other: {', '.join((*seen, place))}.")
        spec = self._row(row, place)
        if spec.like:
            table, _, other = spec.like.rpartition(":")
            home = load_table(self.path.parent / f"{table}.toml") if table else self
            values = home.values(other, seen=(*seen, place))
        else:
            values = read_toml(self._base())
        values = merge(values, spec.settings)
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
            data: A data folder, "samples" or "hub", in place of the table's own.
            encoder: An encoder in place of the table's own.
            smoke: Run a few steps on the sample data, to check that the row runs.
            overrides: Settings as `key=value`; they take precedence over all others.
        """
        values = self.values(row)
        values.update(seed=seed, description=f"{self.spec.title}: {self.spec.rows[row].label}")
        if smoke:
            values = shrink(values)
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

    def _row(self, row: str, place: str) -> RowSpec:
        if row not in self.spec.rows:
            raise RecipeError(f"{place}: no such row. {did_you_mean(row, self.spec.rows)}")
        return self.spec.rows[row]

    def _base(self) -> Path:
        path = self.path.parent / self.spec.recipe
        if not path.is_file():
            raise RecipeError(f"{self.path}: recipe: no such file: {path}.")
        return path


def load_table(source: str | Path) -> Table:
    """Read a table, given its file or its name: `sullivan_kumar/table3`."""
    path = _find(source)
    try:
        spec = TableSpec.model_validate(read_toml(path))
    except ValidationError as error:
        raise refusal(str(path), explain(error.errors(), TableSpec)) from None
    return Table(name=f"{path.resolve().parent.name}/{path.stem}", path=path, spec=spec)


def load_tables(names: Sequence[str | Path]) -> list[Table]:
    """Read several tables; `all` means every known table, `table3:1-pals` one row of a table."""
    found: dict[Path, Table] = {}
    for name in names:
        for each in [path for _, path in known_tables()] if str(name) == "all" else [name]:
            table = _load_chosen(each)
            before = found.setdefault(table.path.resolve(), table)
            both = before.chosen and table.chosen  # an empty choice means all rows
            chosen = tuple(dict.fromkeys(before.chosen + table.chosen)) if both else ()
            found[table.path.resolve()] = replace(before, chosen=chosen)
    return list(found.values())


def _load_chosen(source: str | Path) -> Table:
    table, _, row = str(source).rpartition(":")
    if not table or Path(source).is_file():
        return load_table(source)
    loaded = load_table(table)
    loaded.values(row)  # raises if there is no such row
    return replace(loaded, chosen=(row,))


def known_tables() -> list[tuple[str, Path]]:
    """Return the name and file of every table in ./recipes, or of those that come with palbert."""
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
            f"No table '{source}': no such file, and no table of that name.", hint=did_you_mean(str(source), known)
        )
    return known[str(source)]
