"""The page of all settings: every section has its table, and every setting its real default."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import palbert
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import (
    AdapterSection,
    EncoderSection,
    ObjectiveSection,
    OptimizerSection,
    Phase,
    PretrainingSection,
    Provenance,
    RelationSection,
    RunSection,
    TrainingSection,
)
from palbert.registry import TARGETS
from palbert.tasks.catalog import CATALOG, EXTRA_SETS
from palbert.tasks.choices import Component
from palbert.tasks.held_out import HeldOut
from palbert.tasks.sources import ExtraSet, Source
from palbert.tasks.spec import Task

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "recipe.md").read_text("utf-8")
MODELS: dict[str, type[BaseModel]] = {
    "The top level": Recipe,
    "`[encoder]`": EncoderSection,
    "`[tasks.<name>]`": Task,
    "Files of `train`, `dev` and `test`": Source,
    "`[tasks.<name>.held_out]`": HeldOut,
    "`[tasks.<name>.extra.<set>]`": ExtraSet,
    "`[training]`": TrainingSection,
    "`[optimizer]`": OptimizerSection,
    "`[run]`": RunSection,
    "`[[phases]]`": Phase,
    "`[pretraining]`": PretrainingSection,
    "`[adapters]`": AdapterSection,
    "`[relation]`": RelationSection,
    "`[[objectives]]`": ObjectiveSection,
}
"""The model behind each table, by the table's heading."""
UNLISTED = {Component, Provenance}
"""A named part has a name and its own options; palbert writes the provenance itself."""
FILLED_IN = {
    (Task, "name"),
    (Task, "kind"),
    (Task, "target"),
    (Task, "text"),
    (Phase, "training"),
    (Phase, "optimizer"),
}
"""Settings without a default that a recipe need not give: palbert takes them from what stands around them."""
PARTS = {
    ("`[tasks.<name>]`", "head"): "heads",
    ("`[tasks.<name>]`", "pooling"): "poolings",
    ("`[training]`", "sampler"): "samplers",
    ("`[training]`", "gradients"): "gradients",
    ("`[training]`", "balance"): "balances",
    ("`[training]`", "average"): "averages",
    ("`[optimizer]`", "schedule"): "schedules",
    ("`[adapters]`", "name"): "adapters",
    ("`[relation]`", "name"): "relations",
    ("`[[objectives]]`", "name"): "objectives",
}
"""What can be named where."""


def _tables() -> dict[str, dict[str, tuple[str, str]]]:
    """Read default and meaning of every setting, by heading."""
    tables: dict[str, dict[str, tuple[str, str]]] = {}
    rows: dict[str, tuple[str, str]] | None = None
    heading = ""
    for line in PAGE.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line == "| setting | default | what it does |":
            rows = tables[heading] = {}
        elif not line.startswith("|"):
            rows = None
        elif rows is not None and not line.startswith("|---"):
            settings, default, meaning = line.strip("| ").split(" | ")
            for name in settings.split(", "):
                assert re.fullmatch(r"`\w+`", name) and name.strip("`") not in rows, line
                rows[name.strip("`")] = (default, meaning)
    return tables


TABLES = _tables()
SETTINGS = [(heading, name) for heading, model in MODELS.items() for name in model.model_fields]


def test_every_section_has_a_table() -> None:
    assert set(_models_in(Recipe)) - UNLISTED == set(MODELS.values())
    assert list(TABLES) == list(MODELS)


@pytest.mark.parametrize("heading", MODELS)
def test_a_table_has_every_setting_of_its_section_and_no_others(heading: str) -> None:
    assert sorted(TABLES[heading]) == sorted(MODELS[heading].model_fields)


@pytest.mark.parametrize(("heading", "name"), SETTINGS)
def test_a_setting_has_its_real_default(heading: str, name: str) -> None:
    given, field = TABLES[heading][name][0], MODELS[heading].model_fields[name]
    if (MODELS[heading], name) in FILLED_IN:
        assert field.is_required() and given != "required"
    else:
        assert _is_true(given, field), (
            f"{heading} {name}: the page says {given}, the default is {field.get_default()!r}"
        )


@pytest.mark.parametrize(("heading", "name"), SETTINGS)
def test_a_setting_that_takes_a_few_values_names_them(heading: str, name: str) -> None:
    row = " ".join(TABLES[heading][name])
    values = _literals(MODELS[heading].model_fields[name].annotation)
    assert [value for value in values if not re.search(rf'[`"]{value}[`"]|\b{value} is', row)] == []


@pytest.mark.parametrize(("heading", "name"), PARTS)
def test_a_setting_that_names_a_part_lists_all_of_them(heading: str, name: str) -> None:
    row = TABLES[heading][name][1].replace('"', "")
    listed = palbert.parts(PARTS[heading, name])[PARTS[heading, name]]
    assert [part.name for part in listed if f"`{part.name}`" not in row] == []


def test_every_kind_of_part_is_on_the_page() -> None:
    in_table_of_targets = {"targets", "losses", "metrics"}
    by_config = {"families"}  # named by an encoder's config.json
    assert {*PARTS.values(), *in_table_of_targets, *by_config} == set(palbert.parts())


def test_what_depends_on_the_target_is_listed_for_each() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (`[^|]+`) \| ([^|]+) \| ([^|]+) \|$", PAGE, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == list(TARGETS)
    for name, _, losses, usual, others in rows:
        target = TARGETS[name]
        assert tuple(re.findall(r"`([\w-]+)`", losses)) == target.losses
        assert tuple(re.findall(r"`(\w+)`", usual)) == target.metrics
        assert tuple(re.findall(r"`(\w+)`", others)) == target.other_metrics
    [(_, classes, *_)] = [row for row in rows if row[0] == "binary"]
    task = Task(name="same", kind="single", target="binary", text=("text",))
    assert tuple(re.findall(r"`(\w+)`", classes)) == task.classes


def test_inherited_defaults_are_those_of_the_recipe() -> None:
    values = {"data": "samples", "tasks": ["sst", "sts"], "phases": [{}]}
    sections = {"training": {"batch_size": 7, "clip": 3.0}, "optimizer": {"weight_decay": 0.5}}
    recipe = make_recipe({**values, **sections})
    assert [task.name for task in recipe.tasks.values()] == ["sst", "sts"]
    assert recipe.phases == (Phase(training=recipe.training, optimizer=recipe.optimizer),)
    assert recipe.batch_size(recipe.sets["sst"]) == 7


def test_the_further_settings_of_known_sets_are_listed() -> None:
    text = re.sub(r"\s+", " ", PAGE)
    [sentences] = re.findall(r"In addition, (.*?)\. As \[extra sets\].*?\), (.*?)\. What the recipe sets", text)
    form = {"kind", "target", "classes", "range", "text", "label"}
    for sentence, known in zip(sentences, (CATALOG, EXTRA_SETS), strict=True):
        listed = dict(re.findall(r"`(\w+)` has (.*?)(?=, `\w+` has|$)", sentence))
        brought = {name: {key: defaults[key] for key in defaults.keys() - form} for name, defaults in known.items()}
        assert listed.keys() == {name for name, settings in brought.items() if settings}
        for name, settings in brought.items():
            for key, value in settings.items():
                given = f"a mapping in `{key}`" if isinstance(value, dict) else f"`{key} = {_toml(value)}`"
                assert given in listed[name]


def test_the_page_names_every_environment_variable() -> None:
    source = "\n".join(file.read_text("utf-8") for file in sorted((ROOT / "src").rglob("*.py")))
    names = set(re.findall(r'os\.environ(?:\.get\(|\[)"(\w+)"', source))
    assert "PALBERT_CACHE" in names
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


def _is_true(given: str, field: FieldInfo) -> bool:
    """Return whether the page gives the right default: a value in backquotes is TOML, words describe empty ones."""
    if field.is_required() or given == "required":
        return field.is_required() and given == "required"
    default = field.get_default(call_default_factory=True)
    if not re.fullmatch(r"`[^`]+`", given):
        empty = default is None or default == () or default == {} or default == ""
        nameless = isinstance(default, Component) and not default.name
        return empty or nameless or (isinstance(default, BaseModel) and not default.model_fields_set)
    value = tomllib.loads(f"value = {given.strip('`')}")["value"]
    if isinstance(default, Component):
        return bool(default.model_dump() == {"name": value})
    default = list(default) if isinstance(default, tuple) else default
    return type(value) is type(default) and value == default


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    """Give every model inside a type, and inside the fields of those."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        for field in kind.model_fields.values():
            yield from _models_in(field.annotation)
    for inner in get_args(kind):
        yield from _models_in(inner)


def _literals(kind: Any) -> list[str]:
    """Return the words that a setting takes; none where it is a table or takes any text."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    if get_origin(kind) is dict:
        return []
    return [word for inner in get_args(kind) for word in _literals(inner)]


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_the_typed_dicts_of_python_have_every_setting() -> None:
    tool = ROOT / "tools" / "typed_recipe.py"
    names: dict[str, Any] = {"__name__": "typed_recipe", "__file__": str(tool)}
    exec(compile(tool.read_text("utf-8"), tool, "exec"), names)
    written, expected = (ast.dump(ast.parse(text)) for text in (names["FILE"].read_text("utf-8"), names["source"]()))
    assert written == expected, "The schema has changed: python tools/typed_recipe.py && ruff format src"
