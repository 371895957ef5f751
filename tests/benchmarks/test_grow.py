"""The experiment of growth runs at a tiny size, and what it has measured is not measured again."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert

SAMPLES = Path(palbert.__file__).parent / "data" / "samples"
Script = Callable[[str], Any]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write files of two tasks, as the experiment expects them."""
    for split in ("train", "dev"):
        with (SAMPLES / f"sst-{split}.tsv").open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[:40]
        for file, label in ((f"cs224n/ids-sst-{split}.csv", "sentiment"), (f"glue/CoLA/{split}.tsv", "label")):
            path = tmp_path / "data" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, delimiter="\t")  # without quotes inside, both kinds of files are alike
                writer.writerow(["sentence", label])
                writer.writerows([row["sentence"].replace('"', ""), int(row["sentiment"]) % 2] for row in rows)
    return tmp_path / "data"


def test_the_experiment_compares_each_way_with_joint_training(
    data: Path, script: Script, tiny_encoder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "grow.json"
    places = ["--data", str(data), "--encoder", str(tiny_encoder), "--out", str(out), "--work", str(tmp_path / "runs")]
    sizes = ["--base", "sst", "--seeds", "1", "--epochs", "1", "--steps", "2", "--dev-rows", "20"]
    arguments = [*places, *sizes]
    grow = script("grow")
    grow.main(arguments)
    facts = json.loads(out.read_text("utf-8"))
    assert set(facts["summary"]) == {grow.BASE, grow.JOINT, grow.WARM, "heads first", *grow.WAYS}
    for way in grow.WAYS:
        found = facts["summary"][way]
        assert found["sst"] == facts["summary"][grow.BASE]["sst"]  # growth changes nothing else
        joint = facts["summary"][grow.JOINT]["CoLA"]["mean"]
        assert found["less joint"]["CoLA"]["mean"] == pytest.approx(found["CoLA"]["mean"] - joint)
    written = out.stat().st_mtime_ns
    grow.main(arguments)
    assert out.stat().st_mtime_ns == written
    with pytest.raises(SystemExit, match="other settings"):
        grow.main([*arguments, "--epochs", "2"])


def test_spread_is_mean_and_standard_deviation(script: Script) -> None:
    assert script("grow").spread([1.0, 2.0, 3.0]) == {"mean": 2.0, "sd": 1.0}
    assert script("grow").spread([1.0]) == {"mean": 1.0, "sd": 0.0}
