"""Whole models in other libraries: the outputs of palbert, for every family, adapter, pooling and head."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.parity.test_export import random_folder

import palbert
from palbert.build import build_model
from palbert.data.tokenizer import TextTokenizer
from palbert.inference.decisions import Decision, write_decisions
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe
from palbert.registry import FAMILIES
from palbert.training.checkpoint import TrainerState, save_checkpoint

pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("one_call")

NATIVE = {
    "bert": ("pooler", "linear", "BertForSequenceClassification"),
    "camembert": ("pooler", "linear", "CamembertForSequenceClassification"),
    "distilbert": ("cls", "mlp", "DistilBertForSequenceClassification"),
    "mpnet": ("pooler", "linear", "MPNetForSequenceClassification"),
    "roberta": ("pooler", "linear", "RobertaForSequenceClassification"),
    "xlm-roberta": ("pooler", "linear", "XLMRobertaForSequenceClassification"),
}
RECORDED = ("electra", "modernbert", "mpnet", "xlm-roberta")
"""Families with everything that graphs have: projected embeddings, rotary positions and windows, relative positions,
positions after padding. Recording takes seconds, so the others are left out."""
ADAPTERS: list[dict[str, Any]] = [
    {"name": "pal", "size": 12, "heads": 3},
    {"name": "low-rank", "size": 4},
    {"name": "houlsby", "size": 4},
    {"name": "lora", "rank": 2, "targets": ["query", "value"]},
]
"""One for each family in turn."""


@pytest.fixture
def one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure nothing for long."""
    monkeypatch.setattr("palbert.verbs.exports.onnx_form.SECONDS", 0.0)


def checkpoint_of(encoder: Path, tokenizer: TextTokenizer, folder: Path, tasks: dict[str, Any], **values: Any) -> Path:
    """Write a checkpoint with random weights everywhere."""
    recipe = make_recipe({"data": "samples", "tasks": tasks, **values})
    torch.manual_seed(2)
    model = build_model(recipe.tasks, load_encoder(encoder), adapters=recipe.adapters, relation=recipe.relation)
    for parameter in (*model.adapters.parameters(), *model.poolings.parameters()):  # new ones add nothing
        torch.nn.init.normal_(parameter, std=0.2)
    description = {
        "encoder": asdict(model.encoder.config),
        "adapters": recipe.adapters.model_dump(mode="json") if recipe.adapters else None,
        "relation": recipe.relation.model_dump(mode="json") if recipe.relation else None,
        "tasks": {name: task.model_dump(mode="json") for name, task in recipe.tasks.items()},
    }
    save_checkpoint(folder, model, tokenizer, description=description, state=TrainerState({}, {}, {}, {}))
    return folder


@pytest.mark.parametrize("family", sorted(FAMILIES.paths))
def test_every_family_has_its_whole_models_in_all_forms(family: str, tiny_encoder: Path, tmp_path: Path) -> None:
    encoder = random_folder(family, tiny_encoder, tmp_path / "encoder")
    tokenizer = TextTokenizer.from_folder(encoder)
    tasks = {
        "sst": {"pooling": "attention", "head": "mlp", "max_length": 24},
        "quora": {"pooling": "mean", "max_length": 40},
        "sts": {"pooling": "cls", "pair_input": "siamese", "head": "cosine", "max_length": 64},
    }
    adapter = ADAPTERS[sorted(FAMILIES.paths).index(family) % len(ADAPTERS)]
    relation = {"name": "mlp", "tasks": ["quora", "sts"]}
    run = checkpoint_of(encoder, tokenizer, tmp_path / "run", tasks, adapters=adapter, relation=relation)
    if family in RECORDED:
        graph = palbert.export(run, to="onnx", out=tmp_path / "onnx")
        assert graph.difference is not None and graph.difference < 1e-4
        assert graph.lines[1] == "Equal answers: sst 6 of 6, quora 6 of 6, sts 6 of 6."
    single = palbert.export(run, to="transformers", task="sst", out=tmp_path / "sst")
    assert single.difference is not None and single.difference < 1e-4
    assert single.content == "sst; modeling_palbert.py"
    pairs = palbert.export(run, to="cross-encoder", task="quora", out=tmp_path / "quora")
    assert pairs.difference is not None and pairs.difference < 1e-4


@pytest.mark.parametrize("family", sorted(NATIVE))
def test_models_that_transformers_has_need_no_file_of_ours(family: str, tiny_encoder: Path, tmp_path: Path) -> None:
    pooling, head, name = NATIVE[family]
    encoder = random_folder(family, tiny_encoder, tmp_path / "encoder")
    if pooling == "pooler":
        _add_pooler(encoder)
    tasks = {"quora": {"pooling": pooling, "head": head}}
    tasks["quora"]["max_length"] = 30  # type: ignore[assignment]
    lora = {"name": "lora", "rank": 2, "targets": ["query", "value"]}
    run = checkpoint_of(encoder, TextTokenizer.from_folder(encoder), tmp_path / "run", tasks, adapters=lora)
    write_decisions(run, {"quora": Decision("platt", (2.5,), (-0.3,), rows=9)})
    done = palbert.export(run, to="transformers", task="quora", out=tmp_path / "out")
    assert done.content == f"quora; {name}" and done.difference is not None and done.difference < 1e-4
    assert not (tmp_path / "out" / "modeling_palbert.py").exists()
    settings = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    classes = list(palbert.load(run).tasks["quora"].classes)
    assert settings["id2label"] == {"0": classes[0], "1": classes[1]}
    assert settings["label2id"] == {classes[0]: 0, classes[1]: 1}
    if family in ("bert", "distilbert"):
        from transformers import pipeline

        answer = pipeline("text-classification", model=str(tmp_path / "out"))({"text": "rain", "text_pair": "rain"})
        own = palbert.load(run).predict("quora", [("rain", "rain")])[0]
        assert answer["label"] == own.answer
        assert own.probabilities is not None
        assert answer["score"] == pytest.approx(own.probabilities[own.answer], abs=1e-5)
        scores = palbert.export(run, to="cross-encoder", task="quora", out=tmp_path / "cross")
        assert scores.content == f"quora; {name}" and scores.difference is not None and scores.difference < 1e-5


def _add_pooler(folder: Path) -> None:
    """Add random weights of a pooler to an encoder's folder."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    prefix = next(iter(weights)).split("embeddings.")[0]
    torch.manual_seed(3)
    weights |= {
        f"{prefix}pooler.dense.weight": torch.randn(32, 32) * 0.3,
        f"{prefix}pooler.dense.bias": torch.randn(32),
    }
    save_file(weights, folder / "model.safetensors")


def test_multilabel_and_number_tasks_keep_their_problem_type(
    tiny_encoder: Path, tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    (tmp_path / "rows.tsv").write_text("text\tlabel\nrain\tjoy|fear\nsun\tjoy\n", "utf-8")
    rows = str(tmp_path / "rows.tsv")
    tags = {
        "kind": "single", "text": ["text"], "target": "multilabel", "classes": ["joy", "fear"], "train": rows,
        "dev": rows, "max_length": 20,
    }  # fmt: skip
    tasks = {"tags": tags, "sts": {"max_length": 40}}
    run = checkpoint_of(tiny_encoder, tokenizer, tmp_path / "run", tasks)
    for task, problem, labels in (
        ("tags", "multi_label_classification", ["joy", "fear"]),
        ("sts", "regression", ["sts"]),
    ):
        done = palbert.export(run, to="transformers", task=task, out=tmp_path / task)
        assert done.difference is not None and done.difference < 1e-4
        settings = json.loads((tmp_path / task / "config.json").read_text("utf-8"))
        assert settings["problem_type"] == problem and list(settings["label2id"]) == labels
    scores = palbert.export(run, to="cross-encoder", task="sts", out=tmp_path / "cross")
    assert scores.difference is not None and scores.difference < 1e-4
