"""The padded form of a model: the outputs of the packed one, for all parts of an encoder, adapters and poolings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from palbert.batch import PackedBatch, Part
from palbert.build import build_model
from palbert.data.collate import Portion, collate
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import PalbertError
from palbert.model.multitask import MultiTaskModel
from palbert.model.padded_model import PaddedModel
from palbert.model.pooling import Pooling
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe

TEXTS = [
    ("the plot is dull", "rain"),
    ("rain", "a soup of tomatoes"),
    ("", "the plot"),
    ("never mind the plot", ""),
    ("one word " * 30, "rain " * 9),
]
TASKS = {
    "sst": {"pooling": "attention", "head": "mlp", "max_length": 24},
    "quora": {"pooling": "mean"},
    "sts": {"pair_input": "siamese", "head": "cosine"},
}


def model_of(encoder: Path, **values: Any) -> MultiTaskModel:
    """Build a model with random adapters and poolings."""
    recipe = make_recipe({"data": "samples", "tasks": TASKS, **values})
    torch.manual_seed(1)
    model = build_model(recipe.tasks, load_encoder(encoder), adapters=recipe.adapters, relation=recipe.relation)
    for part in (model.adapters, model.poolings):  # new ones add nothing
        for parameter in part.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def padded(batch: PackedBatch, sequences: slice) -> tuple[torch.Tensor, ...]:
    """Return ids, mask and types of some sequences of a batch, (texts, length)."""
    lengths = batch.starts.diff()[sequences].tolist()
    starts = batch.starts[sequences].tolist()
    ids, mask, types = (torch.zeros(len(lengths), max(lengths), dtype=torch.int64) for _ in range(3))
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        ids[row, :length], types[row, :length] = (each[start : start + length] for each in (batch.ids, batch.types))
        mask[row, :length] = 1
    return ids, mask, types


def compare(model: MultiTaskModel, tokenizer: TextTokenizer) -> None:
    """Assert that padded texts give the outputs of packed ones, for every task."""
    first, second = (tokenizer([pair[side] for pair in TEXTS]) for side in (0, 1))
    rows = np.arange(len(TEXTS))
    for task, columns in {"sst": (first,), "quora": (first, second), "sts": (first, second)}.items():
        portion = Portion(task, task, columns, rows, 24, task == "sts")
        batch = collate([portion], tokenizer.template)
        inputs = padded(batch, batch.parts[task].sequences)
        with torch.inference_mode():
            [found] = PaddedModel(model, {task: batch.parts[task].width})(*inputs)
            torch.testing.assert_close(found, model(batch)[task], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "adapters",
    [
        {"name": "pal", "size": 12, "heads": 3},
        {"name": "low-rank", "size": 4, "per_task": False},
        {"name": "houlsby", "size": 4, "tasks": ["sst", "sts"]},
        {"name": "lora", "rank": 2, "targets": ["query", "value"]},
    ],
    ids=lambda value: value["name"],
)
def test_padded_equals_packed_with_every_adapter(
    adapters: dict[str, Any], tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    relation = {"name": "mlp", "tasks": ["quora", "sts"]}
    compare(model_of(tiny_encoder, adapters=adapters, relation=relation), tokenizer)


def test_padded_equals_packed_with_rotary_positions_and_windows(
    tiny_modernbert: Path, tokenizer: TextTokenizer
) -> None:
    compare(model_of(tiny_modernbert, adapters={"name": "pal", "size": 12, "heads": 3}), tokenizer)


def test_tasks_share_a_pass_if_they_have_the_same_adapter_or_none(tiny_encoder: Path) -> None:
    sequences = {"sst": 1, "quora": 1, "sts": 2}
    plain = model_of(tiny_encoder)
    assert PaddedModel(plain, sequences).passes() == [("", ["sst", "quora", "sts"])]
    some = model_of(tiny_encoder, adapters={"name": "houlsby", "size": 4, "tasks": ["quora"]})
    assert PaddedModel(some, sequences).passes() == [("", ["sst", "sts"]), ("quora", ["quora"])]
    shared = model_of(tiny_encoder, adapters={"name": "houlsby", "size": 4, "per_task": False})
    assert PaddedModel(shared, sequences).passes() == [("sst", ["sst", "quora", "sts"])]


def test_a_pooling_without_a_padded_form_says_what_is_missing(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Last(Pooling):
        def forward(self, hidden: torch.Tensor, batch: PackedBatch, part: Part) -> torch.Tensor:
            return hidden.index_select(0, batch.starts[1:][part.sequences] - 1)

    model = model_of(tiny_encoder)
    model.poolings["sst"] = Last(32)
    ids = torch.ones(2, 3, dtype=torch.int64)
    with pytest.raises(PalbertError, match=r"The pooling Last does not say .* Give it a method `padded"):
        PaddedModel(model, {"sst": 1})(ids, ids, ids)
