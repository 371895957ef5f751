"""Runners: several runs at a time equal one after the other; children share GPUs and report errors."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import palbert


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.mark.usefixtures("no_plots")
def test_several_runs_at_a_time_equal_one_after_the_other(folder: Path) -> None:
    one, several = (palbert.reproduce(["mine/one"], out=f"out{jobs}", jobs=jobs) for jobs in (1, 2))
    assert one.failures == several.failures == {}
    for row in ("plain", "frozen"):
        results = [read(folder / f"out{jobs}/mine/one/{row}/seed-0.json") for jobs in (1, 2)]
        assert results[0]["tasks"] == results[1]["tasks"] and results[0]["losses"] == results[1]["losses"]
    assert (folder / "out2/mine/one/plain/seed-0.log").is_file()


@pytest.mark.usefixtures("no_plots")
def test_a_failing_child_is_reported_with_its_own_message(folder: Path) -> None:
    odd = 'title = "Odd"\n[rows.odd]\nlabel = "odd"\nsettings.adapters = { name = "pal", size = 7 }\n'
    (folder / "recipes/mine/odd.toml").write_text(odd, "utf-8")
    done = palbert.reproduce(["mine/odd"], out="out", jobs=2)
    assert list(done.failures) == ["mine/odd:odd, seed 0"]
    assert "12 heads cannot share a PAL of size 7 evenly" in done.failures["mine/odd:odd, seed 0"]


def test_children_take_the_gpus_in_turn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        time.sleep(0.05)  # long enough for the others to start
        seen.append(env["CUDA_VISIBLE_DEVICES"])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    monkeypatch.setattr("subprocess.run", run)
    palbert.reproduce(["mine/one"], out="out", seeds=2, jobs=4, overrides=["run.device=auto"])
    assert sorted(seen) == ["5", "5", "7", "7"]
    seen.clear()
    palbert.reproduce(["mine/one:plain"], out="named", seeds=2, jobs=2, overrides=["run.device=cuda:1"])
    assert seen == ["5,7", "5,7"]


def test_a_child_that_is_killed_is_not_reported_with_an_older_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = folder / "out/mine/one/plain/seed-0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"error: of an earlier attempt\n")

    def run(command: list[str], *, stdout: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        stdout.write(b"caf\xe9, in the words of a library\n")
        return subprocess.CompletedProcess(command, -9)

    monkeypatch.setattr("subprocess.run", run)
    done = palbert.reproduce(["mine/one:plain"], out="out", jobs=2)
    assert done.failures == {"mine/one:plain, seed 0": f"ended with exit code -9 (log: {log.relative_to(folder)})"}
    assert log.read_bytes().startswith(b"error: of an earlier attempt\ncaf\xe9")
