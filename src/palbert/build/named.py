"""Named parts: from a table or from a user's module, with the recipe's options."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from palbert.errors import MissingExtraError, PalbertError, RecipeError, did_you_mean
from palbert.tasks.choices import Component


def make(table: Mapping[str, Any], component: Component, place: str, *arguments: Any, **settings: Any) -> Any:
    """Make a named part: from a table, or from "module:Class", with the recipe's options."""
    cls = find(table, component.name)
    check_options(cls, arguments, settings, component.options, place)
    try:
        return cls(*arguments, **settings, **component.options)
    except MissingExtraError:  # no fault of the recipe
        raise
    except PalbertError as error:
        raise RecipeError(f"{place}: {error.message}", hint=error.hint) from None
    except (TypeError, ValueError, ArithmeticError) as error:
        if component.name not in table:  # a mistake in a user's own class: its traceback is what helps
            raise
        raise RecipeError(f"{place}: {str(error).rstrip('.')}.") from error


def find(table: Mapping[str, Any], name: str) -> Any:
    """Return the part of that name, or the user's own."""
    return table[name] if name in table else own_part(name)


def function_of(table: Mapping[str, Any], name: str) -> Any:
    """Return a part that is called as it is; of a class, an instance is made first."""
    found = find(table, name)
    return found() if isinstance(found, type) else found


def own_part(name: str) -> Any:
    """Import a user's "module:Class"."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may fail in any way
        raise RecipeError(
            f"'{name}' cannot be imported: {type(error).__name__}: {error}.",
            hint="Is its folder on PYTHONPATH, and is the name right?",
        ) from error


def check_options(
    cls: Any, arguments: tuple[Any, ...], settings: Mapping[str, Any], options: Mapping[str, Any], place: str
) -> None:
    """Refuse options that a class does not take; arguments and settings are palbert's own, not the recipe's."""
    for name in options:
        if name in settings:
            raise RecipeError(f"{place}: '{name}' is no option: palbert sets it.", hint="Leave it out.")
    signature = inspect.signature(cls)
    try:
        signature.bind(*arguments, **settings, **options)
    except TypeError as error:
        known = [name for name in list(signature.parameters)[len(arguments) :] if name not in settings]
        unknown = [name for name in options if name not in signature.parameters]
        hint = None
        if unknown:
            hint = did_you_mean(unknown[0], known) if known else "It takes no options."
        raise RecipeError(f"{place}: {error}.", hint=hint) from error
