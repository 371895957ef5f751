"""A user's package: recipes name its parts by entry point, and they train."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert import extend
from palbert.registry import REGISTRIES

ROOT = Path(__file__).parents[2]
GUIDES = [(ROOT / "docs" / "guides" / name).read_text("utf-8") for name in ("add-a-method.md", "add-an-encoder.md")]
MODULES = {
    name: text for guide in GUIDES for name, text in re.findall(r"```python\n# (\w+)\.py\n(.*?)```", guide, re.DOTALL)
}
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ENTRY_POINTS = {
    "targets": "grades = my_targets:Grades",
    "metrics": "within-half = my_metrics:within_half",
    "heads": "bilinear = my_heads:Bilinear",
    "poolings": "first-and-last = my_poolings:FirstAndLast",
    "losses": "absolute = my_losses:absolute",
    "adapters": "gain = my_adapters:Gain",
    "relations": "gate = my_relations:Gate",
    "objectives": "short-vectors = my_terms:ShortVectors",
    "balances": "logarithms = my_balances:Logarithms",
    "gradients": "equal-lengths = my_weightings:EqualLengths\nsigns = my_gradients:Signs",
    "samplers": "blocks = my_samplers:Blocks",
    "schedules": "inverse-square-root = my_schedules:InverseSquareRoot",
    "averages": "lagging = my_averages:Lagging",
    "families": "wordy-bert = my_families:WORDY_BERT",
}
RECIPES: dict[str, dict[str, Any]] = {
    "target": {"tasks": {"sts": {"target": {"name": "grades", "step": 0.5}}}},
    "metric": {"tasks": {"sts": {"metrics": ["within-half"]}}},
    "head": {"tasks": {"sts": {"head": {"name": "bilinear", "rank": 4}}}},
    "pooling": {"tasks": {"sts": {"pooling": {"name": "first-and-last", "start": 0.5}}}},
    "loss": {"tasks": {"sts": {"loss": "absolute"}}},
    "adapter": {"adapters": "gain"},
    "relation": {"relation": {"name": "gate", "tasks": ["sts", "quora"]}, "tasks": {"sts": {}, "quora": {}}},
    "objective": {"objectives": [{"name": "short-vectors", "weight": 0.1}]},
    "balance": {"training": {"balance": "logarithms"}},
    "weighting": {"training": {"gradients": {"name": "equal-lengths", "power": 1.0}}},
    "gradient method": {"training": {"gradients": "signs"}},
    "sampler": {"training": {"sampler": {"name": "blocks", "block": 2}}},
    "schedule": {"optimizer": {"schedule": {"name": "inverse-square-root", "warmup": 0.5}}},
    "average": {"training": {"average": {"name": "lagging", "every": 1}}},
}


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with all examples of the guides, as pip would, and forget it afterwards."""
    folder = tmp_path / "site-packages"
    information = folder / "my_parts-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.0\n", "utf-8")
    points = "\n".join(f"[palbert.{kind}]\n{lines}\n" for kind, lines in ENTRY_POINTS.items())
    (information / "entry_points.txt").write_text(points, "utf-8")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    _forget()
    yield
    _forget()


def _forget() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)
    for table in REGISTRIES.values():
        vars(table).pop("plugins", None)


def values_of(tiny_recipe: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    training = {"epochs": 1, "steps_per_epoch": 2, "batch_size": 4, "log_every": 1, "sampler": "mixed"}
    return {
        **tiny_recipe,
        "tasks": {"sst": {}, "sts": {}},
        **changes,
        "training": training | changes.get("training", {}),
    }


@pytest.mark.parametrize("kind", RECIPES)
def test_a_part_of_a_package_is_trained_and_loaded_by_its_name(
    tiny_recipe: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    run = palbert.train(palbert.make_recipe(values_of(tiny_recipe, RECIPES[kind])), out=tmp_path / "run")
    [own] = [name for name in MODULES if name in sys.modules]  # no other part of the package was imported
    assert own in "\n".join(ENTRY_POINTS.values())
    assert palbert.load(run).predict("sts", [("A man sings.", "Someone sings.")])


def test_an_encoder_of_a_packages_family_is_trained(
    tiny_recipe: dict[str, Any], tiny_encoder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"model_type": "wordy-bert", "number_of_words": config.pop("vocab_size")}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    run = palbert.train(palbert.make_recipe(values_of(tiny_recipe, {"encoder": str(folder)})), out=tmp_path / "run")
    assert "my_families" in sys.modules
    assert palbert.load(run).predict("sts", [("A man sings.", "Someone sings.")])


def test_the_package_has_a_part_of_every_kind_and_all_are_listed() -> None:
    assert set(ENTRY_POINTS) == set(REGISTRIES)
    listed = palbert.parts()
    for kind, lines in ENTRY_POINTS.items():
        names = {line.partition(" = ")[0] for line in lines.splitlines()}
        assert names <= {part.name for part in listed[kind]}


# The table of what to touch

ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in ARCHITECTURE.partition("## To add something")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| a")
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_table_of_what_to_touch_names_files_tables_and_base_classes_that_exist(row: list[str]) -> None:
    what, where, table, tests, own = row
    [file] = re.findall(r"`([\w/.]+)`", where)
    assert (ROOT / "src" / "palbert" / file).exists()
    assert all((ROOT / path).exists() for path in re.findall(r"`([\w/.]+)`", tests))
    *bases, group = re.findall(r"`([\w.]+)`", own)
    registry = REGISTRIES[group.removeprefix("palbert.")]
    assert getattr(palbert.registry, table.strip("`")) is registry
    assert sorted(f"palbert.extend.{base}" for base in bases) == sorted(registry.base_names.split(" or "))
    assert all(base in extend.__all__ for base in bases)
    folder = file.removesuffix(".py").strip("/").replace("/", ".")
    assert any(path.startswith(f"palbert.{folder}") for path in registry.paths.values()), what


def test_the_table_of_what_to_touch_has_every_kind_of_part_with_its_own_folder() -> None:
    groups = {row[-1].rpartition("`palbert.")[2].strip("`") for row in ROWS}
    assert groups >= {
        "targets", "families", "heads", "poolings", "adapters", "samplers", "objectives", "gradients", "balances",
    }  # fmt: skip
