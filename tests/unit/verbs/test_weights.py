"""Weights of rows and classes in whole runs: weights of 1 change nothing, others change what is trained."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import palbert
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.training.hooks import read_records

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

TASK = {"kind": "single", "target": "binary", "text": "text"}


def write(path: Path, weights: Callable[[int], str]) -> str:
    """Write 24 rows, a third of them yes, with a column of weights."""
    lines = [f"the phone number {row}\t{int(row % 3 == 0)}\t{weights(row)}\n" for row in range(24)]
    path.write_text("text\tlabel\tshare\n" + "".join(lines), "utf-8")
    return str(path)


@pytest.fixture
def train(tiny_recipe: dict[str, Any], tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """Return a function that trains on the rows and returns the losses and the weights of the model."""

    def run(weights: Callable[[int], str], *, name: str = "run", **settings: Any) -> tuple[Any, Any]:
        rows = write(tmp_path / f"{name}.tsv", weights)
        training = tiny_recipe["training"] | {"epochs": 1, "log_every": 1, **settings.pop("training", {})}
        tasks = {"own": {**TASK, "train": rows, "dev": rows, **settings}}
        encoder = tiny_recipe["encoder"] | {"dropout": 0.0, "attention_dropout": 0.0}
        folder = palbert.train(
            make_recipe({**tiny_recipe, "encoder": encoder, "tasks": tasks, "training": training}), out=tmp_path / name
        ).path
        losses = [record["losses"] for record in read_records(folder / "metrics.jsonl") if record["kind"] == "train"]
        return losses, load_file(folder / "checkpoints" / "last" / "model.safetensors")

    return run


def same(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    return first[0] == second[0] and all(np.array_equal(first[1][name], second[1][name]) for name in first[1])


def test_weights_of_1_give_the_same_bits_as_none(train: Callable[..., Any]) -> None:
    plain = train(lambda row: "1")
    assert same(train(lambda row: "1", name="ones", row_weight="share"), plain)
    assert not same(train(lambda row: str(row % 2), name="half", row_weight="share"), plain)


def test_balanced_classes_train_another_model_and_the_log_says_so(
    train: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    plain = train(lambda row: "1")
    with caplog.at_level(logging.INFO):
        assert not same(train(lambda row: "1", name="balanced", class_weights="balanced"), plain)
    # 8 of 24 rows are yes: n / (k n_c) is 24 / 32 for no and 24 / 16 for yes.
    assert "own train: row weights 0.75 … 1.5 (mean 1), as good as 21 equal rows" in caplog.text


def test_weighted_steps_may_be_cut_into_pieces(train: Callable[..., Any]) -> None:
    settings: dict[str, Any] = {"row_weight": "share", "dropout": 0.0, "class_weights": [1, 2]}
    whole, _ = train(lambda row: str(row), **settings, training={"steps_per_epoch": 1})
    pieces, _ = train(lambda row: str(row), name="b", **settings, training={"accumulation": 4, "steps_per_epoch": 1})
    assert pieces[0]["own"] == pytest.approx(whole[0]["own"], rel=1e-4)


def test_a_run_keeps_its_weights_in_recipe_and_checkpoint(train: Callable[..., Any], tmp_path: Path) -> None:
    train(lambda row: str(row), row_weight="share", class_weights={"yes": 2})
    recipe = load_recipe(tmp_path / "run" / "recipe.toml")
    assert recipe.tasks["own"].class_weights == (1.0, 2.0) and recipe.tasks["own"].row_weight == "share"
    assert 'row_weight = "share"' in dump_recipe(recipe)
    assert palbert.load(tmp_path / "run").predict("own", ["the phone"])
