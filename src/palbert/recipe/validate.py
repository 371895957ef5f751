"""Validate: check a recipe's values against the schema, and find all problems at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from palbert.recipe.contradictions import contradictions
from palbert.recipe.explain import explain
from palbert.recipe.overrides import has_setting
from palbert.recipe.schema import Recipe


def validate(values: Mapping[str, Any]) -> tuple[Recipe, list[str]]:
    """Return the recipe and its problems; if it has any, a recipe of the parts that are valid.

    Pydantic checks a table as a whole only if each of its settings is valid. So what it refuses is taken out and the
    rest is validated again, until all problems are found.
    """
    parts = copy.deepcopy(dict(values))
    names = list(parts["tasks"]) if isinstance(parts.get("tasks"), dict) else []
    problems: list[str] = []
    invalid: set[str] = set()
    while True:
        try:
            valid = Recipe.model_validate(parts, context={"partial": bool(problems)})
        except ValidationError as error:
            findings = [finding for finding in error.errors() if not _is_inherited(finding, values)]
            problems += explain(findings)
            for finding in findings:
                invalid |= _take_out(parts, finding)
        else:
            return valid, problems + (contradictions(valid, invalid=invalid, names=names) if problems else [])


def _take_out(parts: dict[str, Any], finding: ErrorDetails) -> set[str]:
    """Remove an unknown key, or else the task or the section that a finding is in; return the name of the section."""
    if not finding["loc"]:
        return set()
    *parents, key = finding["loc"]
    table: Any = parts
    for parent in parents:
        table = table.get(parent) if isinstance(table, dict) else None
    if finding["type"] == "extra_forbidden" and isinstance(table, dict) and key in table:
        del table[key]
        return set()
    section = str(finding["loc"][0])
    if section == "tasks" and parents:
        parts["tasks"].pop(finding["loc"][1], None)
    elif section == "tasks":
        parts["tasks"] = {}
    else:
        parts.pop(section, None)
    return {section}


def _is_inherited(finding: ErrorDetails, values: Mapping[str, Any]) -> bool:
    """Whether a finding in a phase is about a setting of the recipe itself, where it is found as well."""
    match finding["loc"]:
        case ("phases", int(number), "training" | "optimizer" as section, *rest):
            key = ".".join([section, *map(str, rest[:1])])
            return not has_setting(values["phases"][number], key)
    return False
