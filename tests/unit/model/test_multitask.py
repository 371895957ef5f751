"""MultiTaskModel: one pass over a mixed batch equals a pass per task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from palbert.batch import PackedBatch
from palbert.build import build_model
from palbert.data.collate import Portion, collate
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.model.encoder import Encoder
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
from palbert.tasks.catalog import CATALOG
from palbert.tasks.spec import Task

TASKS = {
    "sst": {**CATALOG["sst"], "pooling": "mean", "head": "mlp"},
    "quora": {**CATALOG["quora"], "pair_input": "siamese", "head": "concat-difference", "pooling": "pooler"},
    "sts": {**CATALOG["sts"], "dropout": 0.0},
    "cosine": {**CATALOG["sts"], "pair_input": "siamese", "head": "cosine", "pooling": "mean"},
}
FIRST = ["the phone has two cameras", "a", "she was the first woman to lead the union"]
SECOND = ["one camera", "can you eat raw mushrooms? no", "b"]


def tasks() -> dict[str, Task]:
    return {name: Task.model_validate({"name": name, **values}) for name, values in TASKS.items()}


@pytest.fixture
def model(tiny_encoder: Path) -> MultiTaskModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_model(tasks(), load_encoder(tiny_encoder, dropout=0.0, attention_dropout=0.0)).eval()


def batch_of(names: Sequence[str], tokenizer: TextTokenizer, rows: Sequence[int] = (0, 1, 2)) -> PackedBatch:
    columns = (tokenizer(FIRST), tokenizer(SECOND))
    portions = [
        Portion(name, name, columns[: len(task.text)], np.array(rows), 32, siamese=task.siamese)
        for name, task in tasks().items()
        if name in names
    ]
    return collate(portions, tokenizer.template)


def test_a_mixed_batch_gives_each_task_the_answers_of_its_own_batch(
    model: MultiTaskModel, tokenizer: TextTokenizer
) -> None:
    mixed = model(batch_of(list(TASKS), tokenizer))
    assert list(mixed) == list(TASKS)
    for name, task in tasks().items():
        alone = model(batch_of([name], tokenizer))[name]
        assert mixed[name].shape == (3, task.outputs)
        torch.testing.assert_close(mixed[name], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TASKS)
def test_the_answer_to_a_row_does_not_depend_on_the_others(
    model: MultiTaskModel, tokenizer: TextTokenizer, name: str
) -> None:
    together = model(batch_of([name], tokenizer))[name]
    for row in range(3):
        alone = model(batch_of([name], tokenizer, [row]))[name]
        torch.testing.assert_close(alone, together[row : row + 1], rtol=1e-5, atol=1e-6)


def test_answers_are_in_single_precision(model: MultiTaskModel, tokenizer: TextTokenizer) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(batch_of(["sst", "sts"], tokenizer))
    for output in found.values():
        assert output.dtype is torch.float32
        assert not torch.equal(output, output.bfloat16().float())  # not rounded in between


def test_a_frozen_encoder_gets_no_gradient(model: MultiTaskModel, tokenizer: TextTokenizer) -> None:
    model.encoder.requires_grad_(False)
    torch.cat([output.flatten() for output in model(batch_of(list(TASKS), tokenizer)).values()]).sum().backward()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    assert all(parameter.grad is not None for parameter in model.heads.parameters())


def test_a_task_trains_its_own_head_and_the_encoder(model: MultiTaskModel, tokenizer: TextTokenizer) -> None:
    model(batch_of(["sst"], tokenizer))["sst"].sum().backward()
    touched = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert {name.split(".")[1] for name in touched if name.startswith("heads.")} == {"sst"}
    assert "encoder.embeddings.word.weight" in touched


def test_word_embeddings_may_be_given(model: MultiTaskModel, tokenizer: TextTokenizer) -> None:
    batch = batch_of(["sts"], tokenizer)
    looked_up = model.encoder.word_embeddings(batch.ids)
    assert torch.equal(model(batch, embeddings=looked_up)["sts"], model(batch)["sts"])
    assert not torch.equal(model(batch, embeddings=looked_up + 0.1)["sts"], model(batch)["sts"])


def test_every_parameter_belongs_to_exactly_one_role(model: MultiTaskModel) -> None:
    shared_out = [id(parameter) for _, module in model.roles() for parameter in module.parameters()]
    assert sorted(shared_out) == sorted(id(parameter) for parameter in model.parameters())


def test_poolings_without_weights_add_no_keys_to_a_checkpoint(model: MultiTaskModel) -> None:
    assert {task: type(pooling).__name__ for task, pooling in model.poolings.items()} == {
        "sst": "Mean", "quora": "Pooler", "sts": "Cls", "cosine": "Mean",
    }  # fmt: skip
    assert not [key for key in model.state_dict() if key.startswith("poolings.")]


def test_a_pooling_with_weights_is_moved_saved_and_trained_with_the_heads(
    tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    task = Task.model_validate({"name": "sst", **CATALOG["sst"], "pooling": "attention"})
    model = build_model({"sst": task}, load_encoder(tiny_encoder))
    weight = model.get_parameter("poolings.sst.weight")
    assert [role for role, module in model.roles() if any(each is weight for each in module.parameters())] == ["heads"]
    assert torch.equal(model.state_dict()["poolings.sst.weight"], weight)
    model(batch_of(["sst"], tokenizer))["sst"].square().sum().backward()
    assert weight.grad is not None and weight.grad.abs().sum() > 0
    assert not model.eval().poolings["sst"].training
    assert model.to(torch.float64).get_parameter("poolings.sst.weight").dtype is torch.float64


def test_the_pooler_takes_the_first_token_through_the_encoders_tanh_layer(
    model: MultiTaskModel, tokenizer: TextTokenizer
) -> None:
    batch = batch_of(["quora"], tokenizer)
    first = model.encoder(batch)[batch.starts[:-1].long()]
    torch.testing.assert_close(model.vectors(batch)["quora"], model.encoder.pool(first))


def test_a_pooler_is_refused_where_the_encoder_has_none(tiny_encoder: Path) -> None:
    task = Task.model_validate({"name": "sst", **CATALOG["sst"], "pooling": "pooler"})
    encoder = Encoder(replace(load_encoder(tiny_encoder).config, pooler=False))
    with pytest.raises(RecipeError, match=r"tasks\.sst\.pooling: 'pooler' needs an encoder with a pooler"):
        build_model({"sst": task}, encoder)


def test_encoder_parts_partition_the_encoder_from_bottom_to_top(model: MultiTaskModel) -> None:
    parts = list(model.encoder_parts())
    assert [(name, above) for name, above, _ in parts] == [
        ("encoder.embeddings", 2),
        ("encoder.layers.0", 1),
        ("encoder.layers.1", 0),
        ("encoder.pooler", 0),
    ]
    shared_out = [parameter for _, _, module in parts for parameter in module.parameters()]
    assert [id(parameter) for parameter in shared_out] == [id(parameter) for parameter in model.encoder.parameters()]


@pytest.mark.parametrize("name", ["type", "keys", "forward", "training", "a-b"])
def test_a_task_may_have_any_name(tiny_encoder: Path, tokenizer: TextTokenizer, name: str) -> None:
    task = Task.model_validate({"name": name, **CATALOG["sst"]})
    model = build_model({name: task}, load_encoder(tiny_encoder)).eval()
    batch = collate([Portion(name, name, (tokenizer(FIRST),), np.arange(3), 32)], tokenizer.template)
    assert model(batch)[name].shape == (3, 5)
    assert any(key.startswith(f"heads.{name}.") for key in model.state_dict())


def test_a_task_longer_than_the_encoder_allows_is_refused(tiny_encoder: Path) -> None:
    task = Task.model_validate({"name": "sst", **CATALOG["sst"], "max_length": 129})
    with pytest.raises(RecipeError, match=r"tasks\.sst\.max_length: 129 is more than the encoder's 128"):
        build_model({"sst": task}, load_encoder(tiny_encoder))


def test_the_cosine_head_is_scaled_to_the_range_of_the_task(tiny_encoder: Path) -> None:
    task = Task.model_validate({"name": "c", **TASKS["cosine"], "range": (0, 3)})
    assert build_model({"c": task}, load_encoder(tiny_encoder)).heads["c"].scale == 3
