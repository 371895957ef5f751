"""The benchmark of bias: runs with and without remedies at a tiny size, with means and spread over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Script = Callable[[str], Any]


def test_every_remedy_is_trained_audited_and_summarised(
    script: Script, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    eec = tmp_path / "eec.tsv"
    eec.write_text(
        "Sentence\tTemplate\tPerson\tGender\tRace\tEmotion\tEmotion word\n"
        "He is sad.\t<p> is <e>.\the\tmale\t\tsadness\tsad\nShe is sad.\t<p> is <e>.\tshe\tfemale\t\tsadness\tsad\n",
        "utf-8",
    )
    out = tmp_path / "new" / "bias.json"
    options = ["--out", str(out), "--encoder", str(tiny_encoder), "--eec", str(eec), "--device", "cpu", "--steps", "3"]
    options += ["--batch-size", "4", "--audit-rows", "10", "--seeds", "0"]
    script("bias").main([*options, "--variants", "none"])
    first = json.loads(out.read_text("utf-8"))
    script("bias").main(options)
    facts = json.loads(out.read_text("utf-8"))
    assert facts["runs"][0] == first["runs"][0]  # continued, not measured again
    assert [run["variant"] for run in facts["runs"]] == ["none", "augmentation", "invariance"]
    assert set(facts["summary"]["invariance"]["bias"]) == {"sst", "quora", "sts", "sst on eec.tsv"}
    assert facts["summary"]["none"]["seeds"] == [0]
    assert "| invariance | sst on eec.tsv | – |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        script("bias").main([*options, "--steps", "4"])


def test_the_spread_is_over_seeds(script: Script) -> None:
    figures = {"flip_rate": 0.1, "mean_absolute_shift": 0.2, "largest_group_shift": 0.3}
    runs = [
        {"variant": "none", "seed": seed, "scores": {"sst": 0.5 + seed / 10}, "bias": {"sst": figures}}
        for seed in (0, 2)
    ]
    summary = script("bias").summarise(runs)
    assert summary["none"]["scores"]["sst"] == {"mean": 0.6, "deviation": pytest.approx(0.1414, abs=1e-4)}
    *_, line = script("bias").table(summary)
    assert line == "| none | sst | 0.6000 ± 0.1414 | 0.1000 ± 0.0000 | 0.2000 ± 0.0000 | 0.3000 ± 0.0000 |"
