"""Registry: the parts of one kind, from a name to "module:Class", loaded when used. No torch."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any

from palbert.errors import RecipeError, did_you_mean
from palbert.registry.trust import OWN_CLASS, allow_named_by, check_name

REQUIRED = inspect.Parameter.empty
"""Stands for the default of an option that has none."""
OUTSIDE: list[str] = []
"""The parts loaded so far that are not palbert's own, as "module:Class"."""
_further_folders: list[str] = []


def look_in(folder: str) -> None:
    """Look for the modules of "module:Class" in one more folder, where they are nowhere else.

    It becomes a place for modules when such code is allowed, and not before: a file of a stranger there may have the
    name of a package that is not installed, or say that it is one with entry points.
    """
    if folder not in _further_folders:
        _further_folders.append(folder)


class Registry(Mapping[str, Any]):
    """The parts of one kind: those of palbert, and those that installed packages add by entry points.

    As a mapping, it has the known names as keys and loads the class of a name when it is asked for it. `find` also
    takes a user's own "module:Class".

    Args:
        kind: What a part is called in messages, such as "sampler".
        group: The end of the entry point group, such as "samplers" for `palbert.samplers`.
        base: The class that all parts derive from, as "module:Class"; "" for plain functions.
        other_base: Another class that a part may derive from instead.
        paths: Where the class of each name is, as "module:Class".
        values: Whether parts are values of the base class, and not classes that derive from it.
        given: Arguments that palbert passes to a part; all others are options in the recipe.
        extra: The optional dependencies of palbert that parts need, by name.
        renamed: Methods of the base class by their former names, which would be ignored in a part.
    """

    def __init__(
        self,
        kind: str,
        *,
        group: str,
        base: str,
        paths: Mapping[str, str],
        other_base: str = "",
        values: bool = False,
        given: Collection[str] = (),
        extra: Mapping[str, str] | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.group = f"palbert.{group}"
        self.bases = [path for path in (base, other_base) if path]
        self.paths = dict(paths)
        self.values_only = values
        self.given = frozenset(given)
        self.extra = dict(extra or {})
        self.renamed = dict(renamed or {})

    @cached_property
    def plugins(self) -> dict[str, EntryPoint]:
        """The parts that installed packages offer, by name; palbert's own names cannot be replaced."""
        return {point.name: point for point in entry_points(group=self.group) if point.name not in self.paths}

    def __iter__(self) -> Iterator[str]:
        yield from self.paths
        yield from self.plugins

    def __len__(self) -> int:
        return len(self.paths) + len(self.plugins)

    def __contains__(self, name: object) -> bool:
        return name in self.paths or name in self.plugins

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return _load(self._path(name))

    def _path(self, name: str) -> str:
        """Return where a part is, as "module:Class": of a known name, or given as such."""
        if name in self.plugins:
            return self.plugins[name].value.partition("[")[0].strip()  # without the extras of its package
        return self.paths.get(name, name)

    def find(self, name: str, place: str = "") -> Any:
        """Return the part of a known name, or a user's own class, which must derive from the base class.

        Args:
            name: A known name, or "module:Class".
            place: Where the recipe names it, for errors.
        """
        prefix = f"{place}: " if place else ""
        if name in self:
            found = self[name]
        else:
            self._refuse(name, prefix)
            _find_module(name.partition(":")[0])
            found = _load(name, place)
        bases = tuple(_load(path) for path in self.bases)
        derived = isinstance(found, type) and issubclass(found, bases)
        if bases and not (isinstance(found, bases) if self.values_only else derived):
            remedy = "Make it a" if self.values_only else "Derive its class from"
            raise RecipeError(
                f"{prefix}'{name}' is not {self.article} {self.kind}.", hint=f"{remedy} {self.base_names}."
            )
        if not bases and not callable(found):
            raise RecipeError(f"{prefix}'{name}' is not a {self.kind}: it cannot be called.")
        if not bases and name not in self and _is_standard(_defined_in(found)):
            raise RecipeError(f"{prefix}'{name}' is not a {self.kind}: it belongs to Python itself.")
        missing = sorted(getattr(found, "__abstractmethods__", ()))
        if missing:
            raise RecipeError(f"{prefix}'{name}' does not implement {', '.join(missing)}.")
        for former, method in self.renamed.items():
            if hasattr(found, former):
                raise RecipeError(f"{prefix}'{name}' has a method '{former}'.", hint=f"Rename it to '{method}'.")
        if name not in self.paths:
            allow_named_by(found)
        return found

    def _refuse(self, name: str, prefix: str) -> None:
        """Refuse to import a name that is not in the table: before its module is imported, as that alone runs code."""
        if self.values_only or not OWN_CLASS.match(name):
            raise RecipeError(f"{prefix}unknown {self.kind} '{name}'.", hint=did_you_mean(name, self))
        if _is_standard(name.partition(":")[0]):
            raise RecipeError(f"{prefix}'{name}' is not {self.article} {self.kind}: it belongs to Python itself.")
        check_name(name, prefix)

    @property
    def article(self) -> str:
        """The indefinite article of the kind."""
        return "an" if self.kind[0] in "aeiou" else "a"

    @property
    def base_names(self) -> str:
        """The base classes as a user imports them, such as "palbert.extend.Head"."""
        return " or ".join(f"palbert.extend.{path.partition(':')[2]}" for path in self.bases)

    def describe(self, name: str) -> Description:
        """Describe a part: a known name, or "module:Class"."""
        found = self.find(name)
        documented = importlib.import_module(self._path(name).partition(":")[0]) if self.values_only else found
        options = {} if self.values_only else self._options(found)
        summary = (inspect.getdoc(documented) or "").partition("\n")[0]
        summary = re.sub(r"^Return the ", "The ", summary)  # of a function: what it returns
        return Description(name, options, self.extra.get(name, ""), summary)

    def _options(self, found: Any) -> dict[str, Any]:
        """Return the options of a part with their defaults; without one, `REQUIRED`."""
        options = dict(getattr(found, "shared_options", {}))
        try:
            parameters = inspect.signature(found).parameters
        except (TypeError, ValueError):  # a function written in C may not have one
            return options
        for place, parameter in enumerate(parameters.values()):
            named = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            # The first argument may have any name: palbert passes it by position.
            first = place == 0 and parameter.kind != parameter.KEYWORD_ONLY and parameter.default is REQUIRED
            if named and not (self.given and first) and parameter.name not in self.given:
                options[parameter.name] = parameter.default
        return options


@dataclass(frozen=True)
class Description:
    """Name, options, extra and summary of a part."""

    name: str
    """Its name in a recipe."""
    options: Mapping[str, Any]
    """Its options with their defaults; `REQUIRED` where there is none."""
    extra: str
    """The optional dependencies of palbert that it needs; "" for none."""
    summary: str
    """The first line of its docstring."""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; a required option has no default."""
        options = {name: {} if default is REQUIRED else {"default": default} for name, default in self.options.items()}
        plain = json.loads(json.dumps(options, default=str))
        return {"name": self.name, "options": plain, "extra": self.extra, "summary": self.summary}

    @property
    def written_options(self) -> str:
        """The options as text, with their defaults: "weight = 1.0, steps = 1"."""
        return ", ".join(
            name if default is REQUIRED else f"{name} = {_written(default)}" for name, default in self.options.items()
        )


def _written(value: Any) -> str:
    """Write a default as in a recipe, None as "none"."""
    words = {None: "none", True: "true", False: "false"}
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_written, value))}]"
    return words[value] if value is None or isinstance(value, bool) else str(value)


def _is_standard(module: str) -> bool:
    """Whether a module is part of Python: nothing in it is a part of a model, and much of it runs commands."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top == "builtins"


def _defined_in(found: Any) -> str:
    """Return the module of a class or function, "" if it does not say; of a value, that of its class."""
    while isinstance(found, functools.partial):
        found = found.func
    return str(getattr(found, "__module__", None) or "")  # functions of torch that are written in C have none


def _find_module(module: str) -> None:
    """Make modules of the further folders known, if that of allowed code is not known without them."""
    top = module.partition(".")[0]
    found = top in sys.modules or importlib.util.find_spec(top)
    if not found or getattr(found, "origin", "") is None:  # a folder without __init__.py may be at several places
        sys.path.extend(folder for folder in _further_folders if folder not in sys.path)


def _load(path: str, place: str = "") -> Any:
    """Import "module:Class"."""
    module, _, attribute = path.partition(":")  # of an entry point, perhaps "Outer.Inner"
    if not module.startswith("palbert.") and path not in OUTSIDE:
        OUTSIDE.append(path)
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is not the answer of a command
            return attrgetter(attribute)(importlib.import_module(module))
    except (Exception, SystemExit) as error:  # an imported module may fail in any way
        prefix = f"{place}: " if place else ""
        raise RecipeError(
            f"{prefix}'{path}' cannot be imported: {type(error).__name__}: {error}.",
            hint="Is its folder on PYTHONPATH, and is the name right?",
        ) from error
