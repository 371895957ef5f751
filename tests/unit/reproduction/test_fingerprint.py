"""Fingerprints: what is trained counts, not where its files are or what they are called."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from palbert.model.pretrained import weights_sha256
from palbert.recipe.load import make_recipe
from palbert.reproduction.fingerprint import describe_difference, fingerprint
from palbert.runtime.files import sha256

ROWS = "sentence\tsentiment\nA fine film .\t3\nA dull film .\t1\n"


@pytest.fixture
def values(tiny_recipe: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """Return a recipe with one task, whose files are in their own folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text(ROWS, "utf-8")
    return {**tiny_recipe, "data": str(folder), "tasks": {"sst": files_of(folder)}}


def files_of(folder: Path) -> dict[str, Any]:
    return {split: str(folder / f"{split}.tsv") for split in ("train", "dev", "test")}


def of(values: dict[str, Any], **changes: Any) -> str:
    return fingerprint(make_recipe({**values, **changes}))


def test_moved_files_and_encoders_are_the_same(values: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    encoder = shutil.copytree(values["encoder"]["name"], tmp_path / "encoder")
    moved = {"data": str(tmp_path / "there"), "tasks": {"sst": files_of(tmp_path / "there")}}
    assert of(values, **moved, encoder={"name": str(encoder)}) == of(values)


def test_seed_device_and_explicit_defaults_change_nothing(values: dict[str, Any]) -> None:
    written = {**values["training"], "accumulation": 1, "sampler": "annealed"}
    run = {**values["run"], "capture": "off", "precision": "auto"}
    assert of(values, seed=7, run=run, description="Other words.", training=written) == of(values)


def test_an_option_called_path_is_not_a_data_file(values: dict[str, Any]) -> None:
    sampler = {"name": "own:Sampler", "path": "nowhere.json"}
    assert of(values, training={**values["training"], "sampler": sampler}) != of(values)


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"epochs": 2, "steps_per_epoch": 7, "batch_size": 8}},
        {"encoder_": {"frozen": True}},
        {"adapters": "pal"},
        {"objectives": [{"name": "rdrop", "weight": 0.5}]},
        {"run": {"device": "cpu", "precision": "fp32"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_setting_that_changes_training_changes_it(values: dict[str, Any], changes: dict[str, Any]) -> None:
    changes = {"encoder": {**values["encoder"], **changes["encoder_"]}} if "encoder_" in changes else changes
    assert of(values, **changes) != of(values)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_changed_file_changes_it(values: dict[str, Any], tmp_path: Path, split: str) -> None:
    before = of(values)
    (tmp_path / "here" / f"{split}.tsv").write_text(ROWS + "A film .\t2\n", "utf-8")
    assert of(values) != before


def test_the_test_file_counts_if_its_rows_are_dropped_from_training(values: dict[str, Any], tmp_path: Path) -> None:
    without = {"tasks": {"sst": {**values["tasks"]["sst"], "drop_overlap": ["test"]}}}
    before, before_without = of(values), of(values, **without)
    (tmp_path / "here" / "test.tsv").write_text(ROWS + "A film .\t2\n", "utf-8")
    assert of(values) == before and of(values, **without) != before_without


def test_other_weights_change_it(values: dict[str, Any], tmp_path: Path) -> None:
    encoder = shutil.copytree(values["encoder"]["name"], tmp_path / "encoder")
    weights = encoder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert of(values, encoder={"name": str(encoder)}) != of(values)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_another_configuration_or_tokenizer_changes_it(values: dict[str, Any], tmp_path: Path, name: str) -> None:
    encoder = shutil.copytree(values["encoder"]["name"], tmp_path / "encoder")
    before = of(values, encoder={"name": str(encoder)})
    file = encoder / name
    settings = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**settings, "normalizer": None} if "normalizer" in settings else {**settings, "a": 1}))
    assert of(values, encoder={"name": str(encoder)}) != before


def test_the_order_of_tasks_changes_it(tiny_recipe: dict[str, Any]) -> None:
    turned = dict(reversed(tiny_recipe["tasks"].items()))
    assert of(tiny_recipe, tasks=turned) != of(tiny_recipe)


def test_teachers_count_for_their_own_task_wherever_they_are(
    tiny_recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "palbert.reproduction.fingerprint.teachers_sha256",
        lambda recipe: {run: Path(run).name for task in recipe.tasks.values() for run in task.teachers},
    )

    def taught(**teachers: str) -> str:
        tasks = {task: {"teachers": [teachers[task]]} if task in teachers else {} for task in tiny_recipe["tasks"]}
        return of(tiny_recipe, tasks=tasks)

    here, there = str(tmp_path / "here/a"), str(tmp_path / "there/a")
    other = str(tmp_path / "here/b")
    assert taught(sst=here) == taught(sst=there)
    different = [taught(), taught(sst=here), taught(quora=here), taught(sst=here, quora=here)]
    different += [taught(sst=here, quora=other), taught(sst=other, quora=here)]
    assert len(set(different)) == len(different)


def test_the_fingerprint_of_an_unchanged_recipe_stays_the_same_in_later_versions(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept results are refused when the fingerprint of their recipe changes: new settings need a neutral default."""
    monkeypatch.setattr("palbert.reproduction.fingerprint._encoder_hashes", lambda folder: ["weights", "config"])
    files = files_of(Path(values["data"]))
    full = {
        "tasks": {
            "sst": {**files, "catalog": "sst", "pooling": "mean", "loss": "cross-entropy", "head": "mlp"},
            "sts": {**files, "catalog": "sts", "text": "sentence", "kind": "single", "pooling": "cls"},
        },
        "adapters": {"name": "pal", "size": 12},
        "objectives": [{"name": "smart", "weight": 0.02, "tasks": ["sst"]}, "rdrop"],
        "training": {"epochs": 2, "sampler": "annealed", "gradients": "pcgrad"},
        "optimizer": {"schedule": {"name": "stlr", "warmup": 0.2}},
    }
    assert of(values, **full) == "7032245710a1e8cba44580d21d373809f84c45d9cd0dc615be430dad3e4f0ef6"


def test_the_difference_to_a_result_names_encoder_files_or_settings(values: dict[str, Any]) -> None:
    recipe = make_recipe(values)
    own = weights_sha256(Path(recipe.encoder.name))
    files = {"train.tsv": sha256(Path(values["data"]) / "train.tsv")}
    same = {"encoder": {"name": "tiny", "sha256": own}, "data": {"files": files}}
    assert describe_difference(recipe, same) == "other settings"
    changed = {**same, "data": {"files": {**files, "dev.tsv": "0"}}}
    assert describe_difference(recipe, changed) == "different content of dev.tsv"
    assert describe_difference(recipe, {**same, "encoder": {"name": "bge", "sha256": "0"}}) == "another encoder, bge"
