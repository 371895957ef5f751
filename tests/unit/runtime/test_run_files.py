"""Run files: what palbert writes is known by its name, everything else is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.model.pretrained import OTHER_FILES
from palbert.runtime.run_files import foreign_files
from palbert.runtime.run_folder import RunFolder


def test_everything_in_a_trained_run_is_known(trained: Path) -> None:
    run = RunFolder(trained)
    assert list(foreign_files(trained, [run.checkpoints, run.predictions])) == []


@pytest.mark.parametrize(
    "name",
    ["checkpoints/best-my task/model.safetensors", "checkpoints/last/palbert.sha256",
     "checkpoints/previous/trainer.json",
     "checkpoints/.last.0123456789ab.part/model.safetensors", "checkpoints/.best.k7x2/model.safetensors",
     "predictions/sst-test.csv", "predictions/.sst-dev.csv.0123456789ab.part", "submission/sst-test-output.csv",
     "tensorboard/events.out.tfevents.17.host.1.0", "evaluations/last/report.json", "evaluations/last/report-test.html",
     "evaluations/rows/predictions/sst-test.csv", "checkpoints/.DS_Store", "pretrained/recipe.toml",
     "pretrained/checkpoints/last/optimizer.safetensors", "pretrained/report.json", "pretrained/model.safetensors",
     *(f"pretrained/{name}" for name in OTHER_FILES)],
)  # fmt: skip
def test_what_palbert_writes_is_known(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).touch()
    assert list(foreign_files(tmp_path, list(tmp_path.iterdir()))) == []


@pytest.mark.parametrize(
    "name",
    ["checkpoints/best", "predictions/sst.csv", "evaluations/report.json", "predictions/a/sst-dev.csv", "data/x"],
)
def test_other_names_are_not(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).touch()
    assert list(foreign_files(tmp_path, list(tmp_path.iterdir()))) == [tmp_path / name]
