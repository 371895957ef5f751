"""Questions: which tasks share a pass of the encoder, and that sharing changes no output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from palbert.build import Machine, build_inference, build_model
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import AnswerError
from palbert.inference.evaluator import Inference
from palbert.inference.questions import share_a_pass
from palbert.model.multitask import MultiTaskModel
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe

TEXTS = ["the plot is dull", "rain and soup", "a guitar", "never " * 40, ""]


def made(tiny_encoder: Path, *, adapters: Any = None, **changes: dict[str, Any]) -> tuple[Recipe, MultiTaskModel]:
    """Return a recipe of three tasks that take single texts, and one of pairs, with its untrained model."""
    files = {"train": "sst-train.tsv", "dev": "sst-dev.tsv"}
    single = {"kind": "single", "text": "sentence", "label": "sentiment", **files}
    tasks: dict[str, Any] = {
        "sst": {"pooling": "mean"},
        "tone": {**single, "target": "classes", "classes": ["0", "1", "2", "3", "4"], "pooling": "attention"},
        "grade": {**single, "target": "number", "head": "mlp", "pooling": "pooler"},
        "sts": {},
    }
    for name, change in changes.items():
        tasks[name] = tasks[name] | change
    recipe = make_recipe({"data": "samples", "tasks": tasks, **({"adapters": adapters} if adapters else {})})
    torch.manual_seed(0)
    model = build_model(recipe.tasks, load_encoder(tiny_encoder), adapters=recipe.adapters)
    for parameter in model.adapters.parameters():  # new adapters add nothing
        torch.nn.init.normal_(parameter, std=0.1)
    return recipe, model


def groups(recipe: Recipe, model: MultiTaskModel) -> list[list[str]]:
    return [[task.name for task in group] for group in share_a_pass(recipe.tasks.values(), model.adapter_of)]


def test_tasks_that_see_the_same_tokens_share_a_pass(tiny_encoder: Path) -> None:
    assert groups(*made(tiny_encoder)) == [["sst", "tone", "grade"], ["sts"]]


def test_another_length_needs_a_pass_of_its_own(tiny_encoder: Path) -> None:
    assert groups(*made(tiny_encoder, tone={"max_length": 16})) == [["sst", "grade"], ["tone"], ["sts"]]


def test_adapters_of_single_tasks_need_passes_of_their_own_and_a_shared_one_does_not(tiny_encoder: Path) -> None:
    own = made(tiny_encoder, adapters={"name": "pal", "size": 4, "heads": 2})
    assert groups(*own) == [["sst"], ["tone"], ["grade"], ["sts"]]
    some = made(tiny_encoder, adapters={"name": "pal", "size": 4, "heads": 2, "tasks": ["tone", "sts"]})
    assert groups(*some) == [["sst", "grade"], ["tone"], ["sts"]]
    shared = made(tiny_encoder, adapters={"name": "pal", "size": 4, "heads": 2, "per_task": False})
    assert groups(*shared) == [["sst", "tone", "grade"], ["sts"]]


@pytest.mark.parametrize(
    "adapters",
    [None, {"name": "pal", "size": 4, "heads": 2, "per_task": False}, {"name": "lora", "rank": 2, "tasks": ["tone"]}],
)
def test_outputs_from_a_shared_pass_equal_those_of_each_task_alone(
    adapters: Any, tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    recipe, model = made(tiny_encoder, adapters=adapters)
    inference: Inference = build_inference(model, tokenizer=tokenizer, machine=Machine.of("cpu", "fp32"))
    tasks, tokens = [recipe.tasks[name] for name in ("grade", "tone", "sst")], (tokenizer(TEXTS),)
    together = inference.outputs_of(tasks, tokens)
    assert list(together) == ["grade", "tone", "sst"]
    for task in tasks:
        assert torch.equal(together[task.name], inference.outputs(task, tokens)), task.name


def test_outputs_that_are_not_numbers_name_their_own_task(tiny_encoder: Path, tokenizer: TextTokenizer) -> None:
    recipe, model = made(tiny_encoder)
    with torch.no_grad():
        for parameter in model.heads["grade"].parameters():
            parameter.fill_(float("nan"))
    inference: Inference = build_inference(model, tokenizer=tokenizer, machine=Machine.of("cpu", "fp32"))
    tasks, tokens = [recipe.tasks[name] for name in ("tone", "grade")], (tokenizer(TEXTS),)
    with pytest.raises(AnswerError, match=r"^tasks\.grade: the output of row 1 is not a number"):
        inference.outputs_of(tasks, tokens)
