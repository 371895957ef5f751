"""Explain: what is wrong with a recipe, one line for each problem, with its place and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from palbert.errors import RecipeError, did_you_mean
from palbert.options import shown
from palbert.recipe.likely import likely_key
from palbert.recipe.schema import Recipe
from palbert.tasks.catalog import CATALOG


class Problem(str):
    """A problem of a recipe; `details` help those who ask for more."""

    details = ""


def refusal(name: str, problems: Iterable[str]) -> RecipeError:
    """Return the error that lists all problems of a file, one per line.

    Args:
        name: The file, or what else was read.
        problems: Each with its place in the file.
    """
    found = list(dict.fromkeys(problems))
    details = [problem.details for problem in found if isinstance(problem, Problem) and problem.details]
    return RecipeError("\n".join(f"{name}: {problem}" for problem in found), details="\n".join(dict.fromkeys(details)))


def explain(findings: Iterable[ErrorDetails], schema: type[BaseModel] = Recipe) -> list[str]:
    """Turn pydantic's findings into problems: the place, what is wrong, what to do.

    Args:
        findings: What pydantic found, as `error.errors()` returns it.
        schema: The class that was validated.
    """
    return [line for finding in findings for line in _explain(finding, schema)]


def _explain(finding: ErrorDetails, schema: type[BaseModel]) -> list[str]:
    # Unions occur below the third part of a location only; a task there may well be called "int".
    place = [str(part) for index, part in enumerate(finding["loc"]) if index < 3 or not _is_union_tag(part)]
    where = ".".join(place) or "recipe"
    kind, found = finding["type"], finding.get("input")
    if kind == "extra_forbidden":
        return [_unknown_key(place, schema)]
    if kind == "missing" and len(place) == 3 and found == {"name": place[1]}:
        own = f"A task of your own needs kind, target and text in a table [{'.'.join(place[:-1])}]."
        return [f"{'.'.join(place[:-1])}: unknown task. {did_you_mean(place[-2], CATALOG)} {own}"]
    if kind == "missing":
        return [f"{where}: missing. {_description(place, schema)}".rstrip()]
    if kind == "contradiction":
        problems = finding.get("ctx", {}).get("problems", finding["msg"])
        lines = problems if isinstance(problems, list) else [problems]
        return [_with_stop(f"{where}: {line}" if place else line) for line in lines]  # a recipe's name their places
    hidden = kind == "unknown_name" or isinstance(found, dict | list) or found is None
    return [_with_stop(f"{where}: {finding['msg']}" + ("" if hidden else f", found {shown(found)}"))]


def _unknown_key(place: list[str], schema: type[BaseModel]) -> Problem:
    """Return the likely meaning of a key; where there is none, the known keys of its table."""
    siblings = _fields_at(place[:-1], schema)
    likely = likely_key(place, siblings, _fields_at([], schema) if schema is Recipe else [])
    known = f"Known: {', '.join(sorted(siblings))}."
    where = ".".join(place)
    problem = Problem(f"{where}: unknown key. {f'Did you mean {likely}?' if likely else known}")
    problem.details = f"{'.'.join(place[:-1]) or 'recipe'}: {known}" if likely else ""
    return problem


def _with_stop(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _is_union_tag(part: int | str) -> bool:
    """Whether pydantic put this into a location to name a member of a union."""
    return isinstance(part, str) and ("[" in part or part in ("int", "float", "str", "constrained-str"))


def _model_at(place: Sequence[str], schema: type[BaseModel]) -> type[BaseModel] | None:
    """Return the schema class at a place such as ("tasks", "sst") or ("tasks", "sst", "train", "0")."""
    kind: Any = schema
    for part in place:
        if _is_model(kind):
            field = kind.model_fields.get(part)
            kind = field.annotation if field else None
            if type(None) in get_args(kind):
                kind = _model_in(kind)
        else:  # a table by name, or a list
            kind = _model_in(kind)
    return kind if _is_model(kind) else None


def _model_in(kind: Any) -> Any:
    """Return the schema class inside `dict[str, Task]`, `tuple[Source, ...]` or `Provenance | None`."""
    return next(filter(_is_model, get_args(kind)), None)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _fields_at(place: Sequence[str], schema: type[BaseModel]) -> list[str]:
    model = _model_at(place, schema)
    return [] if model is None else list(model.model_fields)


def _description(place: Sequence[str], schema: type[BaseModel]) -> str:
    """Return the docstring of the field at a place, as a hint."""
    model = _model_at(place[:-1], schema)
    field = model.model_fields.get(place[-1]) if model else None
    return (field.description or "") if field else ""
