"""palbert export --to transformers --task and --to cross-encoder: what they write, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palbert
from palbert.errors import DataError, EncoderError

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


def test_a_task_is_written_with_its_labels_and_compared(trained: Path, tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("transformers")
    result = cli("export", trained, "--to", "transformers", "--task", "sst", "--out", tmp_path / "out")
    assert result.code == 0, result.err
    written, same, own = result.out.splitlines()
    assert written == f"Written: {tmp_path / 'out'} (transformers, sst; modeling_palbert.py)"
    assert same.startswith("transformers gives the same logits as palbert for ")
    assert own == "The folder has a model file of its own: load it with trust_remote_code=True."
    settings = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert list(settings["label2id"]) == list(palbert.load(trained).tasks["sst"].classes)
    origin = json.loads((tmp_path / "out" / "palbert-export.json").read_text("utf-8"))
    assert origin["to"] == "transformers" and origin["task"] == "sst"


def test_scores_of_pairs_are_compared(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    done = palbert.export(trained, to="cross-encoder", task="quora", out=tmp_path / "out")
    assert done.lines[0].startswith("sentence-transformers gives the same scores as palbert for ")
    assert done.difference is not None and done.difference < 1e-5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"to": "transformers", "task": "sts"}, "tasks.sts: siamese pairs are two sequences"),
        ({"to": "cross-encoder", "task": "sts"}, "tasks.sts: siamese pairs are two sequences"),
        ({"to": "cross-encoder", "task": "sst"}, "Export it with --to transformers --task sst."),
        ({"to": "cross-encoder"}, "--to cross-encoder holds one task, found sst, quora, sts."),
        ({"to": "transformers", "task": ["sst", "sts"]}, "--to transformers holds one task, found sst, sts."),
        ({"to": "transformers", "task": "sst", "pooling": "cls"}, "--pooling (pooling) means nothing for"),
    ],
)
def test_what_a_classifier_cannot_hold_is_refused(
    options: dict[str, Any], says: str, trained: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        palbert.export(trained, out=tmp_path / "out", **options)
    assert says in str(caught.value) and not (tmp_path / "out").exists()


def test_nothing_is_written_if_the_library_gives_other_logits(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = "palbert.verbs.exports.classifier_form"
    monkeypatch.setattr(f"{form}.logits_of", lambda _, rows, trust: np.zeros((len(rows), 5), np.float32))
    with pytest.raises(EncoderError, match="transformers gives other logits than palbert"):
        palbert.export(trained, to="transformers", task="sst", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_a_classifier_is_written_unchecked(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("palbert.verbs.exports.classifier_form.scores_of", lambda *_, **__: None)
    assert palbert.export(trained, to="cross-encoder", task="quora", out=tmp_path / "out").difference is None
    assert "Not checked: sentence-transformers is not installed." in caplog.text


def test_thresholds_of_the_target_are_named_in_the_folder(
    tiny_recipe: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    classes = ["delivery", "billing", "account", "quality", "praise"]
    tiny_recipe["tasks"] = {
        "topics": {
            "kind": "single", "classes": classes, "text": "message", "label": "topics",
            "target": {"name": "multilabel", "threshold": {"billing": 0.2}},
            "train": "topics-train.tsv", "dev": "topics-dev.tsv",
        }
    }  # fmt: skip
    tiny_recipe["training"] |= {"epochs": 1, "steps_per_epoch": 1}
    run = palbert.train(tiny_recipe, out=tmp_path / "run")
    palbert.export(run.path, to="transformers", task="topics", out=tmp_path / "out", check=False)
    settings = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert settings["palbert"]["thresholds"] == [0.5, 0.2, 0.5, 0.5, 0.5]
    assert "tasks.topics: transformers does not apply the task's thresholds." in caplog.text
