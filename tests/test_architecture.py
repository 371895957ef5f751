"""The house: imports point down only, files are short and named after what they hold."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "palbert"
FILES = sorted(SOURCE.rglob("*.py"))

ROWS = {
    "__main__": 12,
    "cli": 11,
    "commands": 11,
    "reproduction": 10,
    "serving": 10,
    "sklearn": 10,
    "terminal": 9,
    "verbs": 9,
    "build": 8,
    "extend": 8,
    "training": 7,
    "objectives": 6,
    "gradients": 6,
    "inference": 6,
    "explanations": 6,
    "reporting": 6,
    "model": 5,
    "data": 5,
    "recipe": 4,
    "tasks": 3,
    "bias": 3,
    "targets": 2,
    "readers": 2,
    "batch": 1,
    "metrics": 1,
    "runtime": 1,
    "options": 0,
    "registry": 0,
    "errors": 0,
}
SIDEWAYS = {("reporting", "inference"), ("cli", "commands"), ("options", "errors"), ("registry", "errors")}
"""The imports between parts of one row that are drawn."""
LONGEST = 350
LONGEST_FUNCTION = 50
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
TESTED_ELSEWHERE = {
    "model/families/bert.py": "tests/parity",
    "model/kernels/noise.py": "the kernels that use it",
    "model/kernels/rows.py": "the gradients of tasks that use it",
    "model/kernels/tiles.py": "the attention kernel that uses it",
    "serving/connections.py": "tests/serving/test_clients.py",
    "serving/workers.py": "tests/serving/test_workers.py",
}
"""Files without a test file at the same place, and where they are tested."""
SHAPELESS = {"util", "utils", "common", "misc", "helpers"}
ONLY_IN_TESTS = {"transformers", "scipy", "sklearn"}
WRAPPERS = {"sklearn.py", "verbs/export_check.py", "build/modeling_palbert.py"}
"""Files about such a library: a wrapper that users import with it, the check that it loads what is exported, and a
model file that is exported."""


def part_of(path: Path) -> str:
    """Return the part of the house that a file belongs to: its package, or the module itself."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """Name every module or name that a file imports, inside functions too, in full."""
    package = ["palbert", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def own_imports(path: Path) -> Iterator[str]:
    """Name the parts of palbert that a file imports."""
    for name in imports_of(path):
        first, *rest = name.split(".")
        if first == "palbert" and rest != ["__version__"]:
            yield rest[0] if rest else "palbert"


def identify(path: Path) -> str:
    return str(path.relative_to(SOURCE))


INSIDE = [path for path in FILES if path != SOURCE / "__init__.py"]


def test_every_part_of_the_house_has_a_row() -> None:
    assert {part_of(path) for path in INSIDE} == set(ROWS)


def test_imports_point_down() -> None:
    upward = [
        f"{identify(path)} (row {ROWS[part]}) imports {imported}"
        for path in INSIDE
        for part in [part_of(path)]
        for imported in own_imports(path)
        if imported != part and ROWS.get(imported, 99) >= ROWS[part] and (part, imported) not in SIDEWAYS
    ]
    assert upward == []


def test_the_recipe_stops_at_build() -> None:
    below = [path for path in INSIDE if ROWS[part_of(path)] < ROWS["build"] and part_of(path) != "recipe"]
    assert [identify(path) for path in below if "recipe" in own_imports(path)] == []


def test_the_model_sees_no_task() -> None:
    model = [path for path in INSIDE if part_of(path) == "model"]
    assert [identify(path) for path in model if "tasks" in own_imports(path)] == []


def test_no_file_imports_what_only_tests_need() -> None:
    imported = {identify(path): {name.split(".")[0] for name in imports_of(path)} for path in FILES}
    assert {
        name: found & ONLY_IN_TESTS
        for name, found in imported.items()
        if found & ONLY_IN_TESTS and name not in WRAPPERS
    } == {}


def test_no_file_is_long() -> None:
    written = SOURCE / "recipe" / "typed.py"  # by a tool, two lines per setting
    lengths = {identify(path): len(path.read_text("utf-8").splitlines()) for path in FILES if path != written}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_no_function_is_long() -> None:
    lengths = {
        f"{identify(path)}: {node.name}": node.end_lineno - node.lineno + 1
        for path in FILES
        if "kernels" not in path.parts  # a kernel is one loop over tiles, with pointers that no helper can take
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_every_file_has_a_test_file_at_the_same_place() -> None:
    places = [path.relative_to(SOURCE) for path in INSIDE if path.stem not in ("__init__", "__main__")]
    tests = {str(place): ROOT / "tests" / "unit" / place.parent / f"test_{place.stem}.py" for place in places}
    assert {place for place, test in tests.items() if not test.is_file()} == set(TESTED_ELSEWHERE)


def test_every_file_next_to_the_sources_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["palbert"]
    installed = {path for pattern in patterns for path in SOURCE.glob(pattern)}
    found = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert found - installed == set()


def test_the_page_shows_the_rows_and_names_files_that_exist() -> None:
    shown = dict(re.findall(r"^\| (\d+) \| (`[^|]*`) \|", PAGE.partition("## The walk")[0], re.MULTILINE))
    rows = {int(row): set(re.findall(r"`(\w+)`", parts)) for row, parts in shown.items()}
    assert {part: row for row, parts in rows.items() for part in parts} == {
        part: row for part, row in ROWS.items() if part != "__main__"
    }
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE)
    found = {name for name in named if (SOURCE / name).exists() or (ROOT / name).exists()}
    assert len(found) > 20 and set(named) - found == set()


def test_no_file_has_a_shapeless_name() -> None:
    assert [identify(path) for path in FILES if {*path.relative_to(SOURCE).parent.parts, path.stem} & SHAPELESS] == []


def test_the_first_line_of_a_file_says_what_lives_in_it() -> None:
    assert [identify(path) for path in FILES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


def test_the_reader_of_imports_sees_those_inside_functions_and_relative_ones() -> None:
    text = "def f():\n    import palbert.recipe.load\n    from palbert import batch\n    from .heads import Linear\n"
    path = SOURCE / "model" / "imagined.py"
    original = Path.read_text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self, *a, **k: text if self == path else original(self, *a, **k))
        assert list(own_imports(path)) == ["recipe", "batch", "model"]
