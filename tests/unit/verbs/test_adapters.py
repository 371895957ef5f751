"""Adapters and relational layers from a recipe: trained, saved, loaded, reported, refused."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palbert
from palbert.errors import RecipeError
from palbert.registry import ADAPTERS, RELATIONS

SMALL: dict[str, dict[str, Any]] = {
    "pal": {"size": 8, "heads": 2},
    "low-rank": {"size": 4},
    "houlsby": {"size": 4},
    "lora": {"rank": 2},
}
pytestmark = pytest.mark.usefixtures("on_cpu")

RELATED = {"name": "linear", "tasks": ["quora", "sts"]}


def run(values: dict[str, Any], out: Path, **changes: Any) -> Path:
    values = copy.deepcopy(values)
    values["training"]["steps_per_epoch"] = 3
    return palbert.train(palbert.make_recipe({**values, **changes}), out=out).path


@pytest.mark.parametrize(
    "changes",
    [
        *({"adapters": {"name": name, **options}} for name, options in SMALL.items()),
        {"adapters": {"name": "pal", "per_task": False, **SMALL["pal"]}},
        {"adapters": {"name": "lora", "tasks": ["sst"], **SMALL["lora"]}},
        *({"relation": {**RELATED, "name": name}} for name in RELATIONS),
        {"adapters": {"name": "pal", **SMALL["pal"]}, "relation": RELATED},
    ],
    ids=lambda changes: "-".join(f"{key}-{value['name']}" for key, value in changes.items()),
)
def test_a_loaded_checkpoint_answers_like_the_trained_model(
    tiny_recipe: dict[str, Any], tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = run(tiny_recipe, tmp_path / "run", **changes)
    with (folder / "predictions" / "sts-dev.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    answers = palbert.load(folder).predict("sts", [(row["text1"], row["text2"]) for row in rows])
    assert [answer.answer for answer in answers] == pytest.approx([float(row["prediction"]) for row in rows], abs=1e-4)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    weights = load_file(folder / "checkpoints" / "best" / "model.safetensors")
    counts = report["parameters"]
    shared = counts.get("shared_adapter", 0) + counts.get("relation", 0)
    assert counts["encoder"] + sum(counts["per_task"].values()) + shared == sum(
        value.numel() for value in weights.values()
    )
    assert ("relation" in counts) == ("relation" in changes)


def test_a_frozen_encoder_keeps_its_weights_while_adapters_learn(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["encoder"]["frozen"] = True
    folder = run(tiny_recipe, tmp_path / "run", adapters={"name": "pal", **SMALL["pal"]})
    weights = load_file(folder / "checkpoints" / "last" / "model.safetensors")
    original = palbert.load(folder, checkpoint="best").inference.model.encoder.state_dict()
    for name, value in original.items():
        assert torch.equal(weights[f"encoder.{name}"], value)
    assert any(bool(value.any()) for name, value in weights.items() if ".up." in name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adapters": "pals"}, r"adapters: unknown name 'pals'.*Did you mean 'pal'"),
        ({"adapters": {"name": "pal", "sise": 4}}, r"adapters: .*sise.*Did you mean 'size'"),
        ({"adapters": {"name": "pal", "size": 100}}, r"^adapters: 12 heads cannot share a PAL of size 100 evenly"),
        ({"adapters": {"name": "lora", "targets": ["keys"]}}, r"^adapters: targets: LoRA cannot adapt 'keys'.*'key'"),
        ({"adapters": {"name": "pal", "tasks": ["sstt"]}}, r"adapters\.tasks: unknown task 'sstt'.*'sst'"),
        ({"relation": {**RELATED, "tasks": ["quora", "st"]}}, r"relation\.tasks: unknown task 'st'"),
        ({"relation": {**RELATED, "tasks": ["sst", "sts"]}}, r"relation\.tasks: .*different kinds"),
        ({"relation": {"name": "linear", "tasks": ["sts"]}}, r"relation\.tasks: .*at least 2"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_written(
    tiny_recipe: dict[str, Any], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        run(tiny_recipe, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_adapters_have_their_own_learning_rate(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["optimizer"]["adapter_learning_rate"] = 0.02
    folder = run(tiny_recipe, tmp_path / "run", adapters={"name": "lora", **SMALL["lora"]})
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rates = next(record["learning_rate"] for record in records if record["kind"] == "train")
    assert rates == {"encoder": 1e-3, "adapters": 0.02, "heads": 1e-3}


def test_these_tests_cover_every_adapter() -> None:
    assert SMALL.keys() == ADAPTERS.keys()
