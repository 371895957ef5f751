"""Named parts: made from a registry or a user's module, with the recipe's options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from palbert.errors import MissingExtraError, PalbertError, RecipeError, did_you_mean
from palbert.registry import Registry
from palbert.tasks.choices import Component


def make(registry: Registry, component: Component, place: str, *arguments: Any, **settings: Any) -> Any:
    """Make a named part, from a registry or from "module:Class", with the recipe's options."""
    cls = registry.find(component.name, place)
    check_options(cls, arguments, settings, component.options, place)
    try:
        return cls(*arguments, **settings, **component.options)
    except MissingExtraError:  # not the recipe's fault
        raise
    except PalbertError as error:
        raise RecipeError(f"{place}: {error.message}", hint=error.hint) from None
    except (TypeError, ValueError, ArithmeticError) as error:
        if component.name not in registry:  # a mistake in a user's own class: its traceback helps most
            raise
        raise RecipeError(f"{place}: {str(error).rstrip('.')}.") from error


def function_of(registry: Registry, name: str) -> Any:
    """Return a part that is called as it is; of a class, an instance is made first."""
    found = registry.find(name)
    return found() if isinstance(found, type) else found


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
