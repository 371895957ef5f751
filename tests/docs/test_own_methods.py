"""The guide to methods of one's own: its classes train, and what is wrong with others is said."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import RecipeError

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "add-a-method.md").read_text("utf-8")
WRONG = """
import torch
from palbert.objectives import Term

class Nothing(Term):
    pass

class Rows(Term):
    def values(self, model, batch, clean):
        return {name: clean.vectors[name].sum(1) for name in batch.parts}

class Unknown(Term):
    def values(self, model, batch, clean):
        return {"stss": torch.tensor(0.0)}

def rows(outputs, labels):
    return (outputs.squeeze(1) - labels).square()
"""


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the guide's modules, and one that is all wrong, where Python finds them."""
    modules = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", GUIDE, re.DOTALL)) | {"all_wrong": WRONG}
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        sys.modules.pop(name, None)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    yield
    for name in modules:
        sys.modules.pop(name, None)  # others have modules of these names


def test_the_guides_own_head_and_term_are_trained(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["tasks"] = {"sts": {"head": {"name": "my_heads:Bilinear", "rank": 4}}, "sst": {}}
    tiny_recipe["training"] |= {"epochs": 1, "steps_per_epoch": 4, "log_every": 1, "sampler": "mixed"}
    losses = []
    for weight in (0.0, 10.0):
        term = {"name": "my_terms:ShortVectors", "weight": weight, "tasks": ["sts"]}
        run = palbert.train(palbert.make_recipe({**tiny_recipe, "objectives": [term]}), out=tmp_path / f"run{weight}")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
        losses.append(next(line["losses"] for line in lines if line["kind"] == "train"))
    assert losses[1]["sts"] > losses[0]["sts"] and losses[1]["sst"] == losses[0]["sst"]


def test_the_guides_own_weighting_is_trained(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["tasks"] = {"sts": {}, "sst": {}}
    tiny_recipe["training"] |= {"epochs": 1, "steps_per_epoch": 4, "log_every": 4, "sampler": "mixed", "clip": 1e9}
    tiny_recipe["encoder"] |= {"dropout": 0.0, "attention_dropout": 0.0}
    losses = []
    for power in (0.0, 2.0):
        gradients = {"name": "my_weightings:EqualLengths", "power": power}
        tiny_recipe["training"]["gradients"] = gradients
        run = palbert.train(palbert.make_recipe(tiny_recipe), out=tmp_path / f"run{power}")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
        losses.append(next(line["losses"] for line in lines if line["kind"] == "train"))
    assert losses[0] != losses[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objectives": ["all_wrong:Nothing"]}, "objectives.0: 'all_wrong:Nothing' does not implement values"),
        ({"objectives": ["all_wrong:Rows"]}, r"Rows.values\(\) gives a tensor of shape .* for 'sts'"),
        ({"objectives": ["all_wrong:Unknown"]}, "a value for 'stss', which is not in the batch: sts"),
        ({"tasks": {"sts": {"loss": "all_wrong:rows"}}}, "The loss gives a tensor of shape"),
    ],
)
def test_what_is_wrong_with_a_method_is_said(
    tiny_recipe: dict[str, Any], tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    values = {**tiny_recipe, "tasks": {"sts": {}}, **changes}
    with pytest.raises(RecipeError, match=said):
        palbert.train(palbert.make_recipe(values), out=tmp_path / "run")
