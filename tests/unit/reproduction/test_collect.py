"""The result of a run: what the report and the predictions say, without paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.reproduction.collect import POINTS, _losses, _without_folders
from palbert.runtime.run_folder import RunFolder

ONE_TASK_A_STEP = ["training.sampler=round-robin", "training.log_every=1"]


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.mark.usefixtures("no_plots")
def test_a_result_holds_what_tables_claims_and_plots_need(folder: Path) -> None:
    done = palbert.reproduce(["mine/one"], out="out", seeds=2, keep_checkpoints=True, overrides=ONE_TASK_A_STEP)
    assert done.failures == {}
    frozen, plain = (read(folder / "out/mine/one" / row / "seed-1.json") for row in ("frozen", "plain"))
    report = read(folder / "out/mine/one/plain/seed-1/report.json")
    assert plain["tasks"] == report["tasks"] and plain["overall"] == report["overall"]
    assert plain["seed"] == 1 and plain["reported"] == {"sst": 0.5, "overall": 0.6}
    assert plain["parameters"]["total"] == plain["parameters"]["trained"] == frozen["parameters"]["total"]
    assert 0 < frozen["parameters"]["trained"] < frozen["parameters"]["total"] / 10
    for task, matrix in plain["confusion"].items():
        correct = sum(matrix["counts"][index][index] for index in range(len(matrix["classes"])))
        assert correct / sum(map(sum, matrix["counts"])) == pytest.approx(plain["tasks"][task]["accuracy"])
    assert sum(plain["numbers"]["sts"]["rows"]) == plain["rows"]["sts"]["dev"]
    assert set(plain["losses"]) == {"sst", "quora", "sts"}
    assert len(plain["encoder"]["sha256"]) == 64 and plain["data"]["variant"] == "samples"
    assert str(folder) not in json.dumps(plain) and "/tmp" not in json.dumps(plain)


def test_files_are_named_without_folders_unless_two_share_a_name() -> None:
    hashes = {"/a/sst/train.csv": "1", "/a/sts/train.csv": "2", "/a/sts/dev.csv": "3"}
    assert _without_folders(hashes) == {"sst/train.csv": "1", "sts/train.csv": "2", "dev.csv": "3"}


def test_long_loss_curves_are_thinned_and_missing_losses_left_out(tmp_path: Path) -> None:
    lines = [{"kind": "train", "step": step, "losses": {"sst": step / 3, "sts": None}} for step in range(1, 1001)]
    lines.append({"kind": "epoch", "epoch": 1})
    folder = RunFolder(tmp_path)
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    curves = _losses(folder)
    assert list(curves) == ["sst"] and POINTS / 2 < len(curves["sst"]) <= POINTS
    assert all(loss == pytest.approx(step / 3, abs=1e-4) for step, loss in curves["sst"])
