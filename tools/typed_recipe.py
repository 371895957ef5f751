"""Write src/palbert/recipe/typed.py: the settings of a recipe as typed dicts, from the schema.

Run it after a change of the schema: python tools/typed_recipe.py && ruff format src/palbert/recipe/typed.py
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from palbert.recipe.schema import Recipe
from palbert.tasks.choices import Component
from palbert.tasks.sources import Source

FILE = Path(__file__).parents[1] / "src" / "palbert" / "recipe" / "typed.py"
HEADER = '''"""A recipe in Python: the settings as typed dicts, which editors complete and type checkers check.

Each is a plain dict, as TOML would give it. `python tools/typed_recipe.py` writes this file from the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

Choice = str | Mapping[str, Any]
"""The name of a part, or its name and options: `"pal"`, or `{"name": "pal", "size": 204}`."""
'''
FILES = '''
File = str | PathLike[str] | Source
Files = File | Sequence[File]
"""A file or several, each a path or a `Source`."""
'''
WRITTEN_BY_PALBERT = {("Task", "name"), ("Recipe", "provenance")}
ONE_OR_MORE = "str | Sequence[str]"
PATHS = "str | PathLike[str] | Sequence[str | PathLike[str]]"
WIDER = {
    ("Encoder", "name"): "str | PathLike[str]",
    ("ExtraSet", "text"): ONE_OR_MORE,
    ("Pretraining", "text"): PATHS,
    ("Recipe", "data"): "str | PathLike[str] | None",
    ("Recipe", "encoder"): "str | PathLike[str] | Encoder",
    ("Recipe", "training"): 'Training | Literal["auto"]',
    ("Source", "path"): "str | PathLike[str]",
    ("Source", "text"): ONE_OR_MORE,
    ("Task", "class_weights"): 'Literal["balanced"] | Sequence[float] | Mapping[str, float]',
    ("Task", "dev"): "Files | float",
    ("Task", "prior"): "float | Sequence[float] | Mapping[str, float]",
    ("Task", "teachers"): PATHS,
    ("Task", "text"): ONE_OR_MORE,
    ("Training", "time_limit"): "float | str | None",
}
"""Where a recipe may give more than the field's type says."""


def name_of(model: type[BaseModel]) -> str:
    """Return the name of the typed dict of a class of the schema."""
    name = model.__name__.removesuffix("Section")
    return "Machine" if name == "Run" else name  # a Run is what training leaves


def written(annotation: Any) -> str:
    """Return the type that a setting may be given as, as source code."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(written, arguments)))
    if origin is tuple:
        return "Files" if arguments[0] is Source else f"Sequence[{written(arguments[0])}]"
    if origin is dict:
        table = f"Mapping[str, {written(arguments[1])}]"
        return f"{table} | Sequence[str]" if is_model(arguments[1]) else table
    if hasattr(annotation, "__metadata__"):  # Annotated
        return written(arguments[0])
    if is_model(annotation):
        return "Choice" if issubclass(annotation, Component) else name_of(annotation)
    return "None" if annotation is type(None) else str(annotation.__name__)


def is_model(annotation: Any) -> bool:
    """Whether a type is a class of the schema."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Name the classes of the schema inside a type."""
    if is_model(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def models(root: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the classes of the schema that need a typed dict, each after those it names."""
    found: dict[type[BaseModel], None] = dict.fromkeys(base for base in [base_of(root)] if base)
    for name, field in root.model_fields.items():
        if (name_of(root), name) not in WRITTEN_BY_PALBERT:
            for model in models_in(field.annotation):
                if not issubclass(model, Component):
                    found |= dict.fromkeys(models(model))
    return [*found, root]


def base_of(model: type[BaseModel]) -> type[BaseModel] | None:
    """Return the class of the schema whose settings a class has too."""
    return next((base for base in model.__bases__ if issubclass(base, BaseModel) and base.model_fields), None)


def fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the settings of a class that its base does not have, each as source code with its docstring."""
    name, base = name_of(model), base_of(model)
    inherited = base.model_fields if base else {}
    return {
        key: f'    {key}: {WIDER.get((name, key)) or written(field.annotation)}\n    """{field.description}"""\n'
        for key, field in model.model_fields.items()
        if (name, key) not in WRITTEN_BY_PALBERT and key not in inherited
    }


def source() -> str:
    """Return the text of the file."""
    parts = [HEADER]
    for model in models(Recipe):
        summary = (model.__doc__ or "").strip().splitlines()[0]
        base = base_of(model)
        parent = name_of(base) if base else "TypedDict"
        parts.append(f'\n\nclass {name_of(model)}({parent}, total=False):\n    """{summary}"""\n\n')
        parts += fields(model).values()
        if model is Source:
            parts.append(f"\n{FILES}")
    return "".join(parts)


if __name__ == "__main__":
    FILE.write_text(source(), "utf-8")
