"""The model file of exported classifiers: it stands alone, and trains."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch
from tests.unit.model.test_padded_model import model_of

from palbert.build.classifiers import MODEL_FILE, Classifier, write_classifier
from palbert.data.tokenizer import TextTokenizer


def test_the_file_imports_torch_and_transformers_alone() -> None:
    tree = ast.parse(MODEL_FILE.read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} == {"__future__", "typing", "torch", "transformers"}


def test_a_loaded_model_has_a_loss_and_gradients_in_all_its_parts(
    tiny_encoder: Path, tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    model = model_of(tiny_encoder, adapters={"name": "pal", "size": 12, "heads": 3})
    names = {str(number): f"class {number}" for number in range(5)}
    settings = {"id2label": names, "label2id": {name: int(key) for key, name in names.items()}}
    settings |= {"problem_type": "single_label_classification"}  # type: ignore[dict-item]
    write_classifier(tmp_path, Classifier.of(model, "sst"), tokenizer, settings=settings, max_length=24)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, trust_remote_code=True)
    ids = torch.tensor([[2, 7, 9, 3], [2, 8, 3, 0]])
    found = loaded(input_ids=ids, attention_mask=(ids > 0).long(), labels=torch.tensor([1, 4]))
    found.loss.backward()
    without = [name for name, weight in loaded.named_parameters() if weight.grad is None]
    assert without == [] and found.logits.shape == (2, 5)
    loaded.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text("utf-8"))["adapter"]["kind"] == "pal"
