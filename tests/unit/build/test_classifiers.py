"""Classifiers: which models transformers has, calibration as part of the last layer, and what has no place there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.unit.model.test_padded_model import model_of

from palbert.build.classifiers import Classifier, write_classifier
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.model.heads import Linear


class Doubled(Linear):
    """A head from outside palbert."""


def test_only_the_pooler_and_a_linear_head_are_bert_s_own_classifier(tiny_encoder: Path) -> None:
    tasks: dict[str, Any] = {"sst": {"pooling": "pooler"}, "quora": {"pooling": "cls"}, "sts": {"pooling": "pooler"}}
    model = model_of(tiny_encoder, tasks=tasks, relation={"name": "linear", "tasks": ["quora", "sts"]})
    native = {task: Classifier.of(model, task).native for task in tasks}
    assert native == {"sst": "BertForSequenceClassification", "quora": None, "sts": None}
    adapted = model_of(tiny_encoder, tasks=tasks, adapters={"name": "houlsby", "size": 4})
    assert Classifier.of(adapted, "sst").native is None


def test_calibration_becomes_part_of_the_last_layer(tiny_encoder: Path) -> None:
    vectors = torch.randn(3, 32)
    for task, scale, shift in (("sst", (0.5,), (0.0,)), ("sst", (), ()), ("quora", (2.0,), (-1.0,))):
        classifier = Classifier.of(model_of(tiny_encoder), task)
        head = classifier.head
        before = head(vectors) * (scale[0] if scale else 1) + (shift[0] if shift else 0)
        classifier.calibrate(scale, shift, yes_and_no=task == "quora")
        found = head(vectors)
        if task == "quora":
            assert torch.equal(found[:, 0], torch.zeros(3))
            found = found[:, 1:]
        torch.testing.assert_close(found, before)


def test_parts_from_outside_palbert_are_refused_by_name(tiny_encoder: Path) -> None:
    model = model_of(tiny_encoder)
    model.heads["sst"] = Doubled(32, outputs=5, dropout=0.0)
    with pytest.raises(DataError, match=r"tasks\.sst: the head Doubled has no place .* Export it with --to onnx"):
        Classifier.of(model, "sst")
    with pytest.raises(DataError, match=r"tasks\.sts: the head Cosine has no place"):
        Classifier.of(model, "sts")


def test_the_folder_has_our_model_file_only_where_it_is_needed(
    tiny_encoder: Path, tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    tasks = {"sst": {"pooling": "pooler"}, "quora": {"pooling": "mean"}}
    model = model_of(tiny_encoder, tasks=tasks)
    for task in tasks:
        folder = tmp_path / task
        folder.mkdir()
        settings = {"id2label": {"0": "a"}}
        write_classifier(folder, Classifier.of(model, task), tokenizer, settings=settings, max_length=17)
        assert (folder / "modeling_palbert.py").exists() == (task == "quora")
        config = json.loads((folder / "config.json").read_text("utf-8"))
        assert config["id2label"] == {"0": "a"} and ("auto_map" in config) == (task == "quora")
        assert json.loads((folder / "tokenizer_config.json").read_text("utf-8"))["model_max_length"] == 17
        names = safetensors.torch.load_file(folder / "model.safetensors").keys()
        assert ("classifier.weight" in names) == (task == "sst") and ("head.output.weight" in names) == (
            task == "quora"
        )
