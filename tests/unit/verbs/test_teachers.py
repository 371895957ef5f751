"""Teachers: runs whose answers to the training rows are the soft targets of a later run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palbert
from palbert.build import Machine, load_training_sets, teach
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.recipe.load import load_recipe
from palbert.training.hooks import read_records

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Write = Callable[..., Path]
CPU = Machine(torch.device("cpu"), "fp32")


def values(tiny: Path, teacher: Path | None, **own: Any) -> dict[str, Any]:
    """Return a recipe whose student shares only two tasks with the teacher."""
    teachers = {} if teacher is None else {"teachers": [str(teacher)]}
    return {
        "seed": 5,
        "data": "samples",
        "encoder": {"name": str(tiny), "dropout": 0.0, "attention_dropout": 0.0},
        "tasks": {"sst": {**teachers, "dropout": 0.0}, "sts": {"dropout": 0.0}},
        "training": {"epochs": 1, "steps_per_epoch": 6, "batch_size": 8, "log_every": 1, "sampler": "mixed"},
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
        **own,
    }


def losses(run: Path) -> list[dict[str, float]]:
    return [record["losses"] for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]


def test_the_weight_mixes_labels_and_teachers(
    tiny_encoder: Path, trained: Path, write_recipe: Write, tmp_path: Path
) -> None:
    runs = {}
    for weight in (None, 0.0, 0.5, 1.0):
        objectives = [] if weight is None else [{"name": "distillation", "weight": weight}]
        given = values(tiny_encoder, trained, objectives=objectives)
        runs[weight] = palbert.train(write_recipe(given), out=tmp_path / f"run {weight}").path
    first = {weight: losses(run)[0] for weight, run in runs.items()}
    assert first[0.5]["sst"] == pytest.approx((first[0.0]["sst"] + first[1.0]["sst"]) / 2, rel=1e-5)
    assert first[1.0]["sst"] != first[0.0]["sst"] and first[1.0]["sts"] == first[0.0]["sts"]
    ends = [load_file(runs[weight] / "checkpoints" / "last" / "model.safetensors") for weight in (None, 0.0, 1.0)]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())  # weight 0 changes nothing
    assert not all(torch.equal(value, ends[2][name]) for name, value in ends[0].items())


def test_training_brings_a_student_closer_to_its_teacher(
    tiny_encoder: Path, trained: Path, write_recipe: Write, tmp_path: Path
) -> None:
    training = {"epochs": 1, "steps_per_epoch": 120, "batch_size": 16, "log_every": 20, "sampler": "sequential"}
    given = values(tiny_encoder, trained, objectives=[{"name": "distillation", "weight": 1.0}], training=training)
    given["tasks"] = {"sst": {**given["tasks"]["sst"], "pooling": "mean"}}
    given["optimizer"]["learning_rate"] = 5e-3
    run = palbert.train(write_recipe(given), out=tmp_path / "run").path
    means = [line["sst"] for line in losses(run)]
    recipe, tokenizer = load_recipe(run / "recipe.toml"), TextTokenizer.from_folder(tiny_encoder)
    sets = load_training_sets(recipe, tokenizer)
    taught = teach(recipe, sets, tokenizer=tokenizer, machine=CPU)["sst"].teacher_outputs
    assert taught is not None
    shares = torch.from_numpy(taught[:, 0]).softmax(1)
    entropy = float(-(shares * shares.log()).sum(1).mean())  # no student can have a lower loss
    assert entropy - 0.01 < means[-1] and means[-1] - entropy < 0.5 * (means[0] - entropy)
    hashed = load_recipe(run / "recipe.toml").provenance
    assert hashed is not None and list(hashed.teachers_sha256) == [str(trained)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"teachers": ["nowhere"]}, r"tasks\.sst\.teachers\.0: .*nowhere: no such folder"),
        ({"classes": ["1", "2", "3", "4", "5"]}, "to have the recipe's classes for 'sst'"),
    ],
)
def test_an_unusable_teacher_is_refused(
    tiny_encoder: Path, trained: Path, write_recipe: Write, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    given = values(tiny_encoder, trained, objectives=["distillation"])
    given["tasks"]["sst"].update(change)
    with pytest.raises(RecipeError, match=said):
        palbert.train(write_recipe(given), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_distilling_a_task_twice_is_refused(
    tiny_encoder: Path, trained: Path, write_recipe: Write, tmp_path: Path
) -> None:
    given = values(tiny_encoder, trained, objectives=["distillation", {"name": "distillation", "weight": 0.9}])
    with pytest.raises(RecipeError, match="two distillations of one task"):
        palbert.train(write_recipe(given), out=tmp_path / "run")


def test_a_teacher_without_the_task_is_refused(
    tiny_encoder: Path, trained: Path, tmp_path: Path, write_recipe: Write
) -> None:
    given = values(tiny_encoder, None, objectives=["distillation"])
    given["tasks"] = {"snli": {**dict.fromkeys(("train", "dev"), "quora-dev.tsv"), "teachers": str(trained)}}
    with pytest.raises(RecipeError, match="has no task 'snli'"):
        palbert.train(write_recipe(given), out=tmp_path / "run")


def test_teachers_without_a_distillation_term_are_reported(
    tiny_encoder: Path, trained: Path, write_recipe: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    palbert.train(write_recipe(values(tiny_encoder, trained)), out=tmp_path / "run")
    assert "The teachers of sst have no effect" in caplog.text


def test_cached_teacher_answers_give_the_same_run(
    tiny_encoder: Path, trained: Path, write_recipe: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_CACHE", str(tmp_path / "cache"))
    given = values(tiny_encoder, trained, objectives=[{"name": "distillation"}], encoder={"name": str(tiny_encoder)})
    asked, remembered = (
        palbert.train(write_recipe(given), out=tmp_path / name).path for name in ("asked", "remembered")
    )
    assert losses(asked) == losses(remembered)
