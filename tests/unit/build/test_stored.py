"""Stored states: the heads of tasks give the same outputs on them as on the texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from palbert.build import Machine, build_inference, build_model, load_split, load_training_sets, stored
from palbert.build.stored import NO_TEMPLATE, store_states
from palbert.data.collate import collate
from palbert.data.tokenizer import TextTokenizer
from palbert.inference.evaluator import Inference
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe

CPU = Machine(torch.device("cpu"), "fp32")
TASKS: dict[str, Any] = {
    "sst": {"pooling": "attention"},
    "quora": {"pooling": "pooler"},
    "sts": {"pooling": "mean", "pair_input": "siamese", "head": "concat-difference"},
}


@pytest.mark.parametrize("adapters", [{}, {"adapters": {"name": "lora", "rank": 2, "per_task": False}}])
def test_heads_answer_stored_states_as_they_answer_texts(
    adapters: dict[str, Any], tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    recipe = make_recipe({"data": "samples", "tasks": TASKS, **adapters})
    torch.manual_seed(0)
    model = build_model(recipe.tasks, load_encoder(tiny_encoder), adapters=recipe.adapters)
    for parameter in (*model.adapters.parameters(), *model.poolings.parameters()):
        torch.nn.init.normal_(parameter, std=0.3)
    sets, dev = load_training_sets(recipe, tokenizer), load_split(recipe, "dev", tokenizer)
    found = store_states(model, recipe.tasks, sets, dev, template=tokenizer.template, machine=CPU)
    assert found is not None and model.training
    texts = build_inference(model, tokenizer=tokenizer, machine=CPU)
    states = Inference(found.reader(model), template=NO_TEMPLATE, device=CPU.device, arithmetic=CPU.arithmetic)
    for name, task in recipe.tasks.items():
        for rows, kept in ((dev[name], found.dev[name]), (sets[name].rows, found.sets[name].rows)):
            expected = texts.outputs(task, rows.tokens)
            torch.testing.assert_close(states.outputs(task, kept.tokens), expected, atol=1e-5, rtol=1e-4)
            assert kept.texts is rows.texts and kept.labels is rows.labels


def test_batches_of_stored_states_have_one_token_per_pooled_sequence(
    tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    recipe = make_recipe({"data": "samples", "tasks": TASKS})
    model = build_model(recipe.tasks, load_encoder(tiny_encoder))
    sets = load_training_sets(recipe, tokenizer)
    found = store_states(model, recipe.tasks, sets, {}, template=tokenizer.template, machine=CPU)
    assert found is not None
    chosen = torch.arange(5).numpy()
    batch = collate([found.sets[name].portion(chosen) for name in ("quora", "sts", "sst")], NO_TEMPLATE)
    assert [batch.parts[name].tokens for name in ("quora", "sts")] == [slice(0, 5), slice(5, 15)]
    assert int(batch.starts.diff()[15:].max()) > 1  # a trained pooling needs all tokens


def test_states_that_are_too_large_are_not_stored(
    tiny_encoder: Path, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe({"data": "samples", "tasks": ["sst"]})
    model = build_model(recipe.tasks, load_encoder(tiny_encoder))
    dev = load_split(recipe, "dev", tokenizer)
    monkeypatch.setattr(stored, "MOST", 32 * 4 * len(dev["sst"]) - 1)
    assert store_states(model, recipe.tasks, {}, dev, template=tokenizer.template, machine=CPU) is None
