"""The guide to user-defined methods: all its examples train, and mistakes are reported."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert import extend
from palbert.errors import RecipeError
from palbert.registry import REGISTRIES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "add-a-method.md").read_text("utf-8")
WRONG = """
import torch
from palbert.extend import Term

class Nothing(Term):
    pass

class Rows(Term):
    def values(self, model, batch, forward_pass):
        return {name: forward_pass.vectors[name].sum(1) for name in batch.parts}

class Unknown(Term):
    def values(self, model, batch, forward_pass):
        return {"stss": torch.tensor(0.0)}

def rows(outputs, labels):
    return (outputs.squeeze(1) - labels).square()
"""


MODULES = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", GUIDE, re.DOTALL))
SECTIONS = re.findall(
    r"^## ([^\n]+)\n[^#]*?```toml\n([^`]*)```\n+```python\n# (\w+)\.py\n", GUIDE, re.DOTALL | re.MULTILINE
)
"""Heading, recipe and module of each example."""


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the guide's modules, and one that is all wrong, where Python finds them."""
    modules = MODULES | {"all_wrong": WRONG}
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        sys.modules.pop(name, None)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    yield
    for name in modules:
        sys.modules.pop(name, None)  # others have modules of these names


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Merge nested values into others."""
    both = {key: (values[key], changes[key]) for key in values.keys() & changes.keys()}
    return {**values, **changes} | {
        key: merged(mine, theirs) for key, (mine, theirs) in both.items() if isinstance(mine, dict)
    }


def logged(run: Path) -> list[dict[str, Any]]:
    """Return what was logged about the steps."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [line for line in lines if line["kind"] == "train"]


def test_every_kind_of_part_has_an_example() -> None:
    kinds = re.findall(r"^\| \[([^\]]+)\]", GUIDE, re.MULTILINE)
    assert [heading.lower() for heading, *_ in SECTIONS] == kinds
    assert [module for *_, module in SECTIONS] == list(MODULES)
    bases = {name for name, value in vars(extend).items() if inspect.isclass(value)}
    documented = set(re.findall(r"\| `(\w+)` \| `Class", GUIDE))
    assert documented <= bases
    groups = {f"palbert.{kind}" for kind in REGISTRIES}
    assert groups == set(re.findall(r"`(palbert\.\w+)`", GUIDE.partition("The groups are")[2].partition("\n##")[0]))


@pytest.mark.parametrize(("heading", "recipe", "module"), SECTIONS, ids=[heading for heading, *_ in SECTIONS])
def test_an_example_of_the_guide_is_trained_and_makes_a_difference(
    tiny_recipe: dict[str, Any], plain: list[dict[str, Any]], tmp_path: Path, heading: str, recipe: str, module: str
) -> None:
    values = merged({**tiny_recipe, "training": SHORT}, tomllib.loads(recipe))
    run = palbert.train(palbert.make_recipe(values), out=tmp_path / "run").path
    assert module in sys.modules
    assert palbert.load(run).predict("sts", [("A man sings.", "Someone sings.")])
    steps = logged(run)
    assert all(math.isfinite(loss) for line in steps for loss in line["losses"].values())
    if heading in ("A target", "A metric", "An average"):  # change what is evaluated, not what is trained
        assert [line["losses"] for line in steps] == [line["losses"] for line in plain]
    else:
        said = [(line["losses"], line["learning_rate"]) for line in steps]
        assert said != [(line["losses"], line["learning_rate"]) for line in plain]


SHORT = {"epochs": 1, "steps_per_epoch": 4, "batch_size": 4, "log_every": 1, "sampler": "mixed"}


@pytest.fixture
def plain(tiny_recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what is logged without a user-defined method."""
    if not PLAIN:
        recipe = palbert.make_recipe({**tiny_recipe, "training": SHORT})
        PLAIN.extend(logged(palbert.train(recipe, out=tmp_path_factory.mktemp("plain") / "run").path))
    return PLAIN


PLAIN: list[dict[str, Any]] = []
"""The log of one run that all tests compare with."""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objectives": ["all_wrong:Nothing"]}, "objectives.0: 'all_wrong:Nothing' does not implement values"),
        ({"objectives": ["all_wrong:Rows"]}, r"Rows.values\(\) gives a tensor of shape .* for 'sts'"),
        ({"objectives": ["all_wrong:Unknown"]}, "a value for 'stss', which is not in the batch: sts"),
        ({"tasks": {"sts": {"loss": "all_wrong:rows"}}}, "The loss gives a tensor of shape"),
    ],
)
def test_mistakes_in_a_method_are_reported(
    tiny_recipe: dict[str, Any], tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    values = {**tiny_recipe, "tasks": {"sts": {}}, **changes}
    with pytest.raises(RecipeError, match=said):
        palbert.train(palbert.make_recipe(values), out=tmp_path / "run")
