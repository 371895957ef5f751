"""The model of a recipe: lengths, heads and poolings have to fit tasks and encoder."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.build import check_lengths
from palbert.build.model import check_head, check_pooling, make_head
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError
from palbert.model.heads import Head
from palbert.recipe.load import make_recipe
from palbert.registry import HEADS
from palbert.tasks.spec import Task
from palbert.verbs.train import train

pytestmark = pytest.mark.usefixtures("trusted")

SINGLE: dict[str, Any] = {"name": "t", "kind": "single", "target": "number", "text": "a"}
PAIR: dict[str, Any] = {"name": "t", "kind": "pair", "target": "number", "text": ["a", "b"]}
SIAMESE: dict[str, Any] = {**PAIR, "pair_input": "siamese"}


@pytest.mark.parametrize(
    ("task", "settings", "least"),
    [
        ("sst", {}, 3),
        ("sts", {}, 5),
        ("sts", {"pair_input": "siamese", "head": "concat"}, 3),
    ],
    ids=["single", "joint", "siamese"],
)
def test_a_length_without_room_for_text_is_refused(
    tiny_recipe: dict[str, Any], tokenizer: TextTokenizer, task: str, settings: dict[str, Any], least: int
) -> None:
    def recipe(length: int) -> Any:
        values = copy.deepcopy(tiny_recipe)
        values["tasks"] = {task: {**settings, "max_length": length}}
        return make_recipe(values)

    check_lengths(recipe(least).sets, tokenizer)
    if least > 3:
        with pytest.raises(RecipeError, match=rf"tasks.{task}.max_length: {least - 1} .*at least {least}"):
            check_lengths(recipe(least - 1).sets, tokenizer)


def test_a_length_beyond_that_of_the_encoder_is_refused(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["tasks"]["sst"]["max_length"] = 129
    with pytest.raises(RecipeError, match=r"tasks\.sst\.max_length: 129 is more than the encoder's 128"):
        train(make_recipe(tiny_recipe), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def task(values: dict[str, Any], **more: Any) -> Task:
    return Task.model_validate({**values, **more})


@pytest.mark.parametrize("head", HEADS)
def test_a_head_fits_only_tasks_with_as_many_vectors_as_it_takes(head: str) -> None:
    fitting, others = ([SIAMESE], [SINGLE, PAIR]) if HEADS[head].vectors == 2 else ([SINGLE, PAIR], [SIAMESE])
    for values in fitting:
        check_head(task(values, head=head))
    for values in others:
        with pytest.raises(RecipeError, match=rf"tasks\.t\.head: '{head}' takes .* and this task gives") as caught:
            check_head(task(values, head=head))
        assert ("concat" if values is SIAMESE else 'pair_input = "siamese"') in str(caught.value)


def test_a_head_for_some_targets_is_refused_for_others() -> None:
    with pytest.raises(RecipeError, match=r"tasks\.t\.head: 'cosine' is for target number; this one is 'binary'"):
        check_head(task(SIAMESE, head="cosine", target="binary"))


def test_a_head_has_the_tasks_dropout_unless_it_has_its_own() -> None:
    assert make_head(task(SINGLE, dropout=0.3), hidden_size=8).dropout.p == 0.3
    assert make_head(task(SINGLE, dropout=0.3, head={"name": "linear", "dropout": 0.2}), hidden_size=8).dropout.p == 0.2


def test_a_head_has_an_output_for_each_class() -> None:
    classes = task(SINGLE, target="classes", classes=["a", "b", "c"])
    assert make_head(classes, hidden_size=8)(torch.zeros(2, 8)).shape == (2, 3)


def test_a_cosine_is_scaled_to_the_tasks_range_unless_the_recipe_says_otherwise() -> None:
    assert make_head(task(SIAMESE, head="cosine", range=[0, 3]), hidden_size=8).scale == 3
    assert make_head(task(SIAMESE, head={"name": "cosine", "scale": 2}, range=[0, 3]), hidden_size=8).scale == 2


class Plain(Head):
    """A user's own head, without dropout."""

    def __init__(self, hidden_size: int, *, outputs: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(hidden_size, outputs)

    def forward(self, vector: Tensor) -> Tensor:
        return self.layer(vector)  # type: ignore[no-any-return]


class NotAHead(torch.nn.Linear):
    """A module that does not derive from Head."""


def test_a_users_own_head_need_not_take_a_dropout() -> None:
    own = task(SINGLE, head=f"{__name__}:Plain")
    check_head(own)
    assert make_head(own, hidden_size=8)(torch.zeros(2, 8)).shape == (2, 1)
    with pytest.raises(RecipeError, match=r"unknown option 'dropout'\. It takes no options"):
        check_head(task(SINGLE, head={"name": f"{__name__}:Plain", "dropout": 0.1}))


def test_a_module_that_is_not_a_head_is_refused_with_what_to_derive_from() -> None:
    with pytest.raises(RecipeError, match=r"is not a head\. Derive its class from palbert\.extend\.Head\."):
        check_head(task(SINGLE, head=f"{__name__}:NotAHead"))


def test_wrong_options_of_a_pooling_are_refused_with_their_place() -> None:
    check_pooling(task(SINGLE, pooling={"name": "attention", "dropout": 0.1}))
    with pytest.raises(RecipeError, match=r"tasks\.t\.pooling: dropout: expected a number"):
        check_pooling(task(SINGLE, pooling={"name": "attention", "dropout": 1}))
    with pytest.raises(RecipeError, match=r"tasks\.t\.pooling: unknown option 'dropout'\. It takes no options"):
        check_pooling(task(SINGLE, pooling={"name": "mean", "dropout": 0.1}))
