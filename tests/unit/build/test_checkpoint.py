"""Opening a checkpoint: the model that was saved, from the checkpoint's own files, read once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from palbert.build import Machine, open_checkpoint
from palbert.build.checkpoint import read_tasks
from palbert.errors import CheckpointError, TrustError
from palbert.runtime.checksums import record_folder

MACHINE = Machine(torch.device("cpu"), "fp32")


@pytest.fixture
def checkpoint(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "checkpoints" / "best", tmp_path / "copied"))


def change(folder: Path, **values: Any) -> None:
    path = folder / "palbert.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")
    record_folder(folder)


def test_an_opened_checkpoint_has_the_saved_weights_in_evaluation_mode(checkpoint: Path) -> None:
    opened = open_checkpoint(checkpoint, MACHINE)
    saved, loaded = load_file(checkpoint / "model.safetensors"), opened.model.state_dict()
    assert saved.keys() == loaded.keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in saved.items())
    assert not opened.model.training
    assert list(opened.tasks) == ["sst", "quora", "sts"] and opened.tasks == read_tasks(checkpoint)


def test_opening_reads_palbert_json_once(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reads = Path.read_text, []

    def counted(self: Path, *arguments: Any, **options: Any) -> str:
        reads.append(self.name)
        return read(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", counted)
    open_checkpoint(checkpoint, MACHINE)
    assert reads.count("palbert.json") == 1


@pytest.mark.parametrize(
    "values", [{"tasks": None}, {"tasks": {"sst": {"kind": "triple"}}}, {"encoder": {"layers": 2}}, {"adapters": 3}]
)
def test_a_damaged_description_is_reported_with_its_file(checkpoint: Path, values: dict[str, Any]) -> None:
    change(checkpoint, **values)
    with pytest.raises(CheckpointError, match=r"palbert\.json: damaged"):
        open_checkpoint(checkpoint, MACHINE)


@pytest.mark.parametrize("positions", ["", ["table"], {"table": 1}])
def test_a_part_of_the_encoder_that_does_not_exist_is_reported_with_its_file(checkpoint: Path, positions: Any) -> None:
    encoder = json.loads((checkpoint / "palbert.json").read_text("utf-8"))["encoder"]
    change(checkpoint, encoder={**encoder, "positions": positions})
    with pytest.raises(CheckpointError, match=r"palbert\.json: damaged: Unknown positions"):
        open_checkpoint(checkpoint, MACHINE)


def test_a_length_that_the_encoder_does_not_have_is_reported_with_its_file(checkpoint: Path) -> None:
    encoder = json.loads((checkpoint / "palbert.json").read_text("utf-8"))["encoder"]
    change(checkpoint, encoder={**encoder, "max_length": 3})
    with pytest.raises(
        CheckpointError, match=r"palbert\.json: tasks\.sst\.max_length: \d+ is more than the encoder's 3"
    ):
        open_checkpoint(checkpoint, MACHINE)


def test_a_checkpoint_that_names_foreign_code_is_refused_in_one_plain_line(checkpoint: Path) -> None:
    change(checkpoint, tasks={"sst": {"name": "sst", "kind": "single", "target": "os:system", "text": ["sentence"]}})
    with pytest.raises(TrustError, match=r"palbert\.json: names code .* would run: os:system \(tasks\.sst\.target\)"):
        open_checkpoint(checkpoint, MACHINE)


@pytest.mark.usefixtures("trusted")
def test_python_itself_is_refused_in_a_trusted_checkpoint_too(checkpoint: Path) -> None:
    change(checkpoint, tasks={"sst": {"name": "sst", "kind": "single", "target": "os:system", "text": ["sentence"]}})
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(checkpoint, MACHINE)
    _, _, problem = str(caught.value).partition("damaged: ")
    assert problem == "target: 'os:system' is not a target: it belongs to Python itself."


def test_a_task_has_the_name_that_it_is_stored_under(checkpoint: Path) -> None:
    tasks = json.loads((checkpoint / "palbert.json").read_text("utf-8"))["tasks"]
    change(checkpoint, tasks={"../sst": tasks["sst"]})
    with pytest.raises(CheckpointError, match=r"damaged: task '\.\./sst' is called 'sst'"):
        open_checkpoint(checkpoint, MACHINE)


def test_tasks_are_read_without_the_weights(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    assert list(read_tasks(checkpoint)) == ["sst", "quora", "sts"]
    with pytest.raises(CheckpointError, match="missing, although"):
        open_checkpoint(checkpoint, MACHINE)
