"""The verb `parts`: what a recipe can name, with options."""

from __future__ import annotations

from palbert.errors import PalbertError, RecipeError, did_you_mean
from palbert.registry import REGISTRIES, Description
from palbert.registry.trust import allow


def parts(kind: str | None = None) -> dict[str, list[Description]]:
    """Return the parts that a recipe can name, by kind: palbert's own and those of installed packages.

    Args:
        kind: One kind, such as "samplers"; all kinds unless given.
    """
    if kind is not None and kind not in REGISTRIES:
        raise PalbertError(f"Unknown kind of part '{kind}'.", hint=did_you_mean(kind, REGISTRIES))
    chosen = REGISTRIES if kind is None else {kind: REGISTRIES[kind]}
    return {name: [_describe(name, part) for part in table] for name, table in chosen.items()}


def _describe(kind: str, name: str) -> Description:
    """Describe a part; of a package that is broken, report the error as its summary."""
    try:
        allow(name)  # the user names it
        return REGISTRIES[kind].describe(name)
    except RecipeError as error:
        return Description(name, options={}, extra="", summary=str(error))
