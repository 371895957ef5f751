"""The guide to user-defined targets: its code trains, predicts, compares and reports."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import DataError, RecipeError
from palbert.extend import Target
from palbert.verbs.check import check_data, label_shares
from palbert.verbs.predict_file import predict_file

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "add-a-target.md").read_text("utf-8")
NO_TARGET = "class Nothing:\n    pass\n\ndef ratio(gold, predicted):\n    return float(predicted.sum() / gold.sum())\n"


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the guide's module, and one that is wrong, where Python finds them."""
    modules = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", GUIDE, re.DOTALL)) | {"no_target": NO_TARGET}
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        sys.modules.pop(name, None)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    yield
    for name in modules:
        sys.modules.pop(name, None)


@pytest.fixture
def values(tiny_recipe: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """Return a recipe whose task is to count a word; the guide's recipe, with files."""
    for split, rows in (("train", 60), ("dev", 20)):
        texts = [" ".join(["the"] * (row % 5) + ["a", "phone"]) for row in range(rows)]
        with (tmp_path / f"replies-{split}.csv").open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("message", "replies"), *((text, text.count("the")) for text in texts)])
    [recipe] = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    task = palbert.recipe.load.tomllib.loads(recipe)["tasks"]["replies"]
    files = {split: str(tmp_path / task[split]) for split in ("train", "dev")}
    tiny_recipe |= {"data": None, "tasks": {"replies": {**task, **files, "pooling": "mean"}}}
    tiny_recipe["training"] |= {"epochs": 3, "steps_per_epoch": 40, "sampler": "mixed"}
    tiny_recipe["optimizer"]["learning_rate"] = 3e-3
    return {key: value for key, value in tiny_recipe.items() if value is not None}


def test_the_target_of_the_guide_trains_predicts_compares_and_reports(values: dict[str, Any], tmp_path: Path) -> None:
    recipe = palbert.make_recipe({**values, "objectives": ["smart", "rdrop"]})
    target = recipe.tasks["replies"].target
    assert (target.name, target.choice) == ("my_targets:Count", {"name": "my_targets:Count", "most": 500})
    assert [label_shares(each) for each in check_data(recipe)] == ["0 … 4, mean 2.00"] * 2
    run = palbert.train(recipe, out=tmp_path / "run")
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert report["tasks"]["replies"].keys() == {"spearman", "mae"} and report["tasks"]["replies"]["spearman"] > 0.8
    assert "follow the gold numbers" in (run / "report.html").read_text("utf-8")
    assert palbert.evaluate(run, split="train").summary["rows"]["replies"]["train"] == 60
    predictor = palbert.load(run)
    few, many = predictor.predict("replies", ["a phone", "the the the the a phone"])
    assert 0 < few.answer < many.answer
    source, output = tmp_path / "replies-dev.csv", tmp_path / "out.jsonl"
    assert predict_file(predictor, "replies", source, output) == 20
    assert json.loads(output.read_text("utf-8").splitlines()[0])["prediction"] == pytest.approx(few.answer)
    [same] = palbert.compare([run, run])
    assert (same.metric, same.difference.difference) == ("spearman", 0.0)


def test_the_target_of_the_guide_works_with_teachers_and_balances(values: dict[str, Any], tmp_path: Path) -> None:
    values["training"] |= {"epochs": 1, "steps_per_epoch": 2, "balance": "uncertainty"}
    first = palbert.train(palbert.make_recipe(values), out=tmp_path / "first")
    values["tasks"]["replies"]["teachers"] = str(first)
    assert palbert.train(palbert.make_recipe({**values, "objectives": ["distillation"]}), out=tmp_path / "second")


def test_a_user_metric_is_used_for_scores(values: dict[str, Any], tmp_path: Path) -> None:
    values["training"] |= {"epochs": 1, "steps_per_epoch": 2}
    values["tasks"]["replies"]["metrics"] = ["mae", "no_target:ratio"]
    run = palbert.train(palbert.make_recipe(values), out=tmp_path / "run")
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert report["tasks"]["replies"]["no_target:ratio"] > 0
    assert "no_target:ratio" in (run / "report.html").read_text("utf-8")


def test_a_label_that_the_target_refuses_is_reported_with_its_line(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "replies-train.csv").write_text("message,replies\na,1\nb,2.5\n", "utf-8")
    with pytest.raises(DataError, match=r"line 3: expected a whole number from 0 to 500, found \"2.5\""):
        palbert.train(palbert.make_recipe(values), out=tmp_path / "run")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_target:Nothing", r"tasks\.replies\.target: 'no_target:Nothing' is not a target.*palbert\.extend\.Target"),
        ("no_module:Nothing", r"tasks\.replies\.target: 'no_module:Nothing' cannot be imported"),
        ({"name": "my_targets:Count", "least": 1}, r"unknown option 'least'\. Known: most"),
        ("cuont", r"unknown name 'cuont'\. Known: binary, classes, multilabel, number"),
    ],
)
def test_mistakes_in_a_target_are_reported(values: dict[str, Any], target: Any, message: str) -> None:
    values["tasks"]["replies"]["target"] = target
    with pytest.raises(RecipeError, match=message):
        palbert.make_recipe(values)


def test_the_guide_lists_what_a_target_has() -> None:
    table = GUIDE.split("## What a target has")[1]
    offered = {name for name in vars(Target) if not name.startswith("_")} - {"name", "fits"}
    assert [name for name in sorted(offered) if not re.search(rf"`{name}\b", table)] == []
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    needed = {name for row in rows for name in re.findall(r"`(\w+)", row[1] if "yes" in row[3] else row[3])}
    assert needed == Target.__abstractmethods__ | {"losses", "metrics"}
