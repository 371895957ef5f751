"""Folders of an encoder: the length and pooling that they are written with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palbert

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")


def test_an_encoder_reads_as_much_as_the_longest_task_or_the_named_one(run_copy: Path, tmp_path: Path) -> None:
    for task, length in ((None, 128), ("sst", 128)):
        out = tmp_path / f"{task}"
        done = palbert.export(run_copy, out=out, task=task, check=False)
        settings = json.loads((out / "sentence_bert_config.json").read_text("utf-8"))
        assert settings["max_seq_length"] == length and done.pooling == "mean" and done.content == "pooling mean"
    whole = palbert.export(run_copy, out=tmp_path / "whole", to="transformers", check=False)
    assert whole.pooling == "mean" and whole.lines == ()
    origin = json.loads((tmp_path / "whole" / "palbert-export.json").read_text("utf-8"))
    assert origin["to"] == "transformers" and origin["adapter"] is None
