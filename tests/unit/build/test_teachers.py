"""Teachers: they answer every row of their tasks' sets once, like predictions, and no triplets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import palbert
from palbert.build import Machine, load_training_sets, teach
from palbert.data.tokenizer import TextTokenizer
from palbert.inference.evaluator import Inference
from palbert.recipe.load import make_recipe

pytestmark = pytest.mark.usefixtures("on_cpu")

CPU = Machine(torch.device("cpu"), "fp32")


def values(tiny: Path, teacher: Path, **task: Any) -> dict[str, Any]:
    """Return a recipe whose task "sst" has the teacher, and "sts" none."""
    return {
        "data": "samples",
        "encoder": {"name": str(tiny)},
        "tasks": {"sst": {"teachers": [str(teacher)], **task}, "sts": {}},
    }


def test_teachers_answer_every_row_with_their_prediction(
    tiny_encoder: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_CACHE", str(tmp_path))
    recipe = make_recipe(values(tiny_encoder, trained))
    tokenizer = TextTokenizer.from_folder(tiny_encoder)
    train = load_training_sets(recipe, tokenizer)
    sets = teach(recipe, train, tokenizer=tokenizer, machine=CPU)
    assert sets.keys() == train.keys() and [name for name in sets if sets[name].teacher_outputs is not None] == ["sst"]
    taught = sets["sst"].teacher_outputs
    assert taught is not None and taught.shape == (len(train["sst"]), 1, 5)
    said = palbert.load(trained).predict("sst", list(train["sst"].rows.texts[0]))
    chosen = taught[:, 0].argmax(1)
    assert [prediction.answer for prediction in said] == [recipe.tasks["sst"].classes[index] for index in chosen]

    def refuse(*arguments: Any, **settings: Any) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(Inference, "outputs", refuse)  # the second time, the cache answers
    again = teach(recipe, train, tokenizer=tokenizer, machine=CPU)["sst"].teacher_outputs
    assert again is not None and np.array_equal(again, taught)


def test_extra_rows_of_a_task_are_answered_and_triplets_are_not(
    tiny_encoder: Path, trained: Path, tokenizer: TextTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_CACHE", str(tmp_path))
    triplets = tmp_path / "triplets.tsv"
    triplets.write_text("a\tb\tc\na dog\tan animal\ta cat\n", "utf-8")
    extra = {"cfimdb": {}, "made": {"train": str(triplets), "form": "triplets", "text": ["a", "b", "c"]}}
    recipe = make_recipe(values(tiny_encoder, trained, extra=extra))
    sets = teach(recipe, load_training_sets(recipe, tokenizer), tokenizer=tokenizer, machine=CPU)
    answered = {name: each.teacher_outputs is not None for name, each in sets.items()}
    assert answered == {"sst": True, "sst+cfimdb": True, "sst+made": False, "sts": False}
    taught = sets["sst+cfimdb"].teacher_outputs
    assert taught is not None and taught.shape == (len(sets["sst+cfimdb"]), 1, 5)


def test_several_teachers_answer_side_by_side_in_the_order_of_the_recipe(
    tiny_encoder: Path, trained: Path, tokenizer: TextTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALBERT_CACHE", str(tmp_path))
    (tmp_path / "few.tsv").write_text("id\tsentence\tsentiment\n0\ta good film\t3\n1\tbad\t0\n", "utf-8")
    train = [{"path": str(tmp_path / "few.tsv")}]
    recipe = make_recipe(values(tiny_encoder, trained, catalog="sst", train=train))
    twice = {"sst": recipe.tasks["sst"].model_copy(update={"teachers": (str(trained), str(trained))})}
    recipe = recipe.model_copy(update={"tasks": twice})
    sets = load_training_sets(recipe, tokenizer)
    taught = teach(recipe, sets, tokenizer=tokenizer, machine=CPU)["sst"].teacher_outputs
    assert taught is not None and taught.shape == (2, 2, 5)
    assert np.array_equal(taught[:, 0], taught[:, 1])
