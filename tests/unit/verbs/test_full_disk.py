"""A full disk: a message that says so, no partial files, and old files unchanged."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError
from safetensors.torch import save_file

import palbert

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a real disk of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def recipe(tiny_recipe: dict[str, Any], write_recipe: Callable[..., Path]) -> Path:
    # One checkpoint with the trainer's state takes 3.8 megabytes: the first one fits, the second does not.
    return write_recipe({**tiny_recipe, "tasks": {"sst": {}}})


def assert_full(result: Any, place: Path) -> None:
    assert result.code == 2
    assert f"error: {place}: the disk is full; what was there before is untouched." in result.err
    assert "Free some space" in result.err and "Traceback" not in result.err


def test_training_on_a_full_disk_keeps_its_last_checkpoint_and_can_be_resumed(
    recipe: Path, small_disk: Path, cli: Cli, snapshot: Snapshot
) -> None:
    run = small_disk / "run"
    result = cli("train", recipe, "--out", run)
    assert_full(result, run / "checkpoints" / "last")
    assert re.search(r"^ +1 +\d+ .* best ", result.err, flags=re.MULTILINE)
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best", "best-sst", "last"}
    described = json.loads((run / "checkpoints" / "last" / "palbert.json").read_text("utf-8"))
    assert described["scores"]["epoch"] == 1
    assert palbert.load(run).predict("sst", ["a quiet little triumph"])[0].answer
    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
    assert cli("train", recipe, "--out", run, "--resume").code == 0
    described = json.loads((run / "checkpoints" / "last" / "palbert.json").read_text("utf-8"))
    assert described["scores"]["epoch"] == 2
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [record["epoch"] for record in records if record["kind"] == "evaluation"] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_predicting_to_a_full_disk_leaves_no_partial_file(
    kind: str, trained: Path, small_disk: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 10)
    given = tmp_path / "in.jsonl"
    given.write_text("".join(json.dumps({"sentence": f"row {row}", "key": str(row)}) + "\n" for row in range(50)))
    out = small_disk / f"out.{kind}"
    out.write_bytes(b"precious")
    with (small_disk / "ballast").open("wb") as ballast:
        ballast.write(b"x" * (4 * 1024 * 1024 - 8192))  # one page is left, another holds the old output
    result = cli("predict", trained, "--task", "sst", "--input", given, "--output", out, "--force")
    assert_full(result, out)
    assert {path.name: path.stat().st_size for path in small_disk.iterdir() if path.name != "ballast"} == {out.name: 8}
    assert out.read_bytes() == b"precious"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
    ids=["python", "safetensors"],
)
def test_a_failed_checkpoint_write_keeps_the_old_checkpoints(
    error: Exception, recipe: Path, tmp_path: Path, cli: Cli, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palbert.training import checkpoint

    run, save, calls = tmp_path / "run", save_file, []
    kept: dict[str, bytes] = {}

    def failing(tensors: dict[str, Any], path: Path) -> None:
        calls.append(path)
        if len(calls) == 5:  # three files per checkpoint: the weights are saved, the optimizer's state is not
            kept.update(snapshot(run / "checkpoints" / "last"))
            raise error
        save(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", failing)
    assert_full(cli("train", recipe, "--out", run), run / "checkpoints" / "last")
    assert kept and snapshot(run / "checkpoints" / "last") == kept
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best", "best-sst", "last"}
    assert palbert.load(run, checkpoint="last").predict("sst", ["fine"])


def test_a_failed_report_write_keeps_the_old_report(
    run_copy: Path, cli: Cli, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(run_copy)

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = cli("evaluate", run_copy)
    assert_full(result, run_copy / "predictions" / "sst-dev.csv")
    assert snapshot(run_copy) == before


def test_an_unwritable_folder_is_reported(
    recipe: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def refused(self: Path, *arguments: Any, **settings: Any) -> None:
        if "run" in self.parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        mkdir(self, *arguments, **settings)

    monkeypatch.setattr(Path, "mkdir", refused)
    result = cli("train", recipe, "--out", tmp_path / "run")
    assert result.code == 2
    assert f"error: {tmp_path / 'run'}: cannot be written: Permission denied." in result.err
