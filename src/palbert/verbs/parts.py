"""The verb `parts`: what a recipe can name, with options."""

from __future__ import annotations

from palbert.errors import PalbertError, RecipeError, did_you_mean
from palbert.registry import REGISTRIES, Description
from palbert.registry.trust import allow
from palbert.reporting.display import Table


class Parts(dict[str, list[Description]]):
    """The parts that a recipe can name, by kind; shown in a notebook as a table."""

    def _repr_html_(self) -> str:
        rows = [
            (kind, part.name, ", ".join(part.options), part.summary) for kind, each in self.items() for part in each
        ]
        return Table(("kind", "name", "options", ""), rows, most=len(rows)).html()


def parts(kind: str | None = None) -> Parts:
    """Return the parts that a recipe can name, by kind: palbert's own and those of installed packages.

    Args:
        kind: One kind, such as "samplers"; all kinds unless given.
    """
    if kind is not None and kind not in REGISTRIES:
        raise PalbertError(f"Unknown kind of part '{kind}'.", hint=did_you_mean(kind, REGISTRIES))
    chosen = REGISTRIES if kind is None else {kind: REGISTRIES[kind]}
    return Parts({name: [_describe(name, part) for part in table] for name, table in chosen.items()})


def _describe(kind: str, name: str) -> Description:
    """Describe a part; of a package that is broken, report the error as its summary."""
    try:
        allow(name)  # the user names it
        return REGISTRIES[kind].describe(name)
    except RecipeError as error:
        return Description(name, options={}, extra="", summary=str(error))
