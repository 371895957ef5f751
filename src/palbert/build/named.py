"""Named parts: made from a registry or a user's module, with the recipe's options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palbert.errors import MissingExtraError, PalbertError, RecipeError
from palbert.options import check_options, takes
from palbert.registry import Registry
from palbert.tasks.choices import Component


def make(
    registry: Registry,
    component: Component,
    place: str,
    *arguments: Any,
    offered: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Make a named part, from a registry or from "module:Class", with the recipe's options.

    Args:
        registry: The parts of its kind.
        component: Its name and options.
        place: Where the recipe names it, for errors.
        arguments: Passed by position.
        offered: Passed by name to a part that has an argument of that name.
        settings: Passed by name.
    """
    part = registry.find(component.name, place)
    settings |= {name: value for name, value in (offered or {}).items() if takes(part, name)}
    check_options(part, arguments, settings, component.options, place)
    try:
        return part(*arguments, **settings, **component.options)
    except MissingExtraError:  # the recipe is right
        raise
    except PalbertError as error:
        raise RecipeError(f"{place}: {error.message}", hint=error.hint) from None
    except (TypeError, ValueError, ArithmeticError) as error:
        if component.name not in registry.paths:  # a mistake in a class of others: its traceback helps most
            raise
        raise RecipeError(f"{place}: {str(error).rstrip('.')}.") from error


def check(
    registry: Registry,
    component: Component,
    place: str,
    *arguments: Any,
    offered: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Refuse wrong options of a part, with the arguments of `make`.

    Palbert's own parts are made, so that they check their options. Others are not: they may not support every size.
    """
    if component.name in registry.paths:
        make(registry, component, place, *arguments, offered=offered, **settings)
        return
    part = registry.find(component.name, place)
    settings |= {name: value for name, value in (offered or {}).items() if takes(part, name)}
    check_options(part, arguments, settings, component.options, place)
