"""Explain: what is wrong with a recipe, one line for each finding, with its place and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from palbert.errors import did_you_mean
from palbert.recipe.schema import Recipe
from palbert.tasks.catalog import CATALOG


def explain(error: ValidationError, name: str, schema: type[BaseModel] = Recipe) -> str:
    """Turn pydantic's findings into one line each: the place, what is wrong, what to do.

    Args:
        error: The findings.
        name: The file, or what else was read.
        schema: What it was read as.
    """
    lines = []
    for finding in error.errors():
        # A union is never above the third place; a task there may well be called "int".
        place = [str(part) for index, part in enumerate(finding["loc"]) if index < 3 or not _is_union_tag(part)]
        where = ".".join(place) or "recipe"
        if finding["type"] == "extra_forbidden":
            known = _fields_at(place[:-1], schema)
            lines.append(f"{name}: {where}: unknown key. {did_you_mean(place[-1], known)}")
        elif finding["type"] == "missing" and len(place) == 3 and finding["input"] == {"name": place[1]}:
            own = f"A task of your own needs kind, target and text in a table [{'.'.join(place[:-1])}]."
            lines.append(f"{name}: {'.'.join(place[:-1])}: unknown task. {did_you_mean(place[-2], CATALOG)} {own}")
        elif finding["type"] == "missing":
            lines.append(f"{name}: {where}: missing. {_describe(place, schema)}".rstrip())
        else:
            found = finding.get("input")
            shown = "" if isinstance(found, dict | list) or found is None else f", found {found!r}"
            if finding["type"] in ("contradiction", "unknown_name"):
                shown = ""
            if not place and finding["type"] == "contradiction":  # these name their places themselves
                lines += [f"{name}: {_ended(problem)}" for problem in finding["msg"].split("; ")]
                continue
            lines.append(f"{name}: {where}: {_ended(finding['msg'] + shown)}")
    return "\n".join(dict.fromkeys(lines))


def _ended(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _is_union_tag(part: int | str) -> bool:
    """Whether pydantic put this in the location to name a member of a union."""
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


def _describe(place: Sequence[str], schema: type[BaseModel]) -> str:
    """Return the docstring of the field at a place, as a hint."""
    model = _model_at(place[:-1], schema)
    field = model.model_fields.get(place[-1]) if model else None
    return (field.description or "") if field else ""
