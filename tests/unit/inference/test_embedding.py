"""Embedder: pooled token states, for models with and without tasks and adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from palbert.build import Machine, build_inference, build_model
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.inference.embedding import Embedder
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe

TEXTS = ["the plot is dull", "rain and soup", "", "never " * 200]
PAL = {"name": "pal", "size": 4, "heads": 2}


def make(tiny_encoder: Path, tokenizer: TextTokenizer, adapters: dict[str, Any] | None = None) -> Embedder:
    tasks = {"sst": {"max_length": 64}, "sts": {"max_length": 32}}
    recipe = make_recipe({"data": "samples", "tasks": tasks, **({"adapters": adapters} if adapters else {})})
    torch.manual_seed(0)
    model = build_model(recipe.tasks, load_encoder(tiny_encoder), adapters=recipe.adapters)
    for parameter in model.adapters.parameters():  # new adapters add nothing
        torch.nn.init.normal_(parameter, std=0.1)
    inference = build_inference(model, tokenizer=tokenizer, machine=Machine.of("cpu", "fp32"))
    return Embedder(inference, tokenizer=tokenizer, tasks=recipe.tasks, max_length=16)


def vectors(embedder: Embedder, texts: Any = TEXTS, **changes: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    return embedder(texts, **{"pooling": "mean", "normalise": False, "task": None, **changes})


def test_vectors_have_the_width_of_the_encoder_and_the_order_of_the_texts(
    tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    embedder = make(tiny_encoder, tokenizer)
    found = vectors(embedder)
    assert found.shape == (4, 32) and found.dtype == np.float32
    for row, text in enumerate(TEXTS):
        np.testing.assert_allclose(vectors(embedder, [text])[0], found[row], atol=1e-6)
    assert vectors(embedder, []).shape == (0, 32)


def test_normalised_vectors_have_the_same_direction_and_length_1(tiny_encoder: Path, tokenizer: TextTokenizer) -> None:
    embedder = make(tiny_encoder, tokenizer)
    plain, normalised = vectors(embedder), vectors(embedder, normalise=True)
    np.testing.assert_allclose(np.linalg.norm(normalised, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(normalised * np.linalg.norm(plain, axis=1, keepdims=True), plain, atol=1e-5)


def test_texts_are_as_long_as_the_longest_task_allows_or_the_named_one(
    tiny_encoder: Path, tokenizer: TextTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = make(tiny_encoder, tokenizer)
    long = [" ".join(["soup"] * 100)]
    assert np.array_equal(vectors(embedder, long), vectors(embedder, [" ".join(["soup"] * 62)]))
    assert np.array_equal(vectors(embedder, long, task="sts"), vectors(embedder, [" ".join(["soup"] * 30)], task="sts"))
    assert "1 of 1 texts were longer than 64 tokens" in caplog.text


def test_each_pooling_gives_other_vectors(tiny_encoder: Path, tokenizer: TextTokenizer) -> None:
    embedder = make(tiny_encoder, tokenizer)
    mean, cls, pooler = (vectors(embedder, pooling=name) for name in ("mean", "cls", "pooler"))
    assert not np.allclose(mean, cls, atol=1e-3) and not np.allclose(cls, pooler, atol=1e-3)
    assert (np.abs(pooler) <= 1).all()


def test_adapters_of_single_tasks_need_a_task_and_a_shared_one_does_not(
    tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    own, plain = make(tiny_encoder, tokenizer, PAL), make(tiny_encoder, tokenizer)
    with pytest.raises(DataError, match=r"adapters of their own, .* Name the task: .* There are: sst, sts\."):
        vectors(own)
    first, second = vectors(own, ["a guitar"], task="sst"), vectors(own, ["a guitar"], task="sts")
    assert not np.allclose(first, second, atol=1e-3)
    shared = make(tiny_encoder, tokenizer, {**PAL, "per_task": False})
    assert np.array_equal(vectors(shared), vectors(shared, task="sst"))
    assert not np.allclose(vectors(shared), vectors(plain), atol=1e-3)


@pytest.mark.parametrize(
    ("texts", "changes", "says"),
    [
        ("one text", {}, "Expected a list of texts, found one text."),
        (["a", ("b", "c")], {}, "row 1 is ('b', 'c')"),
        (["a"], {"task": "stss"}, "Unknown task 'stss'."),
        (["a"], {"pooling": "maen"}, "Unknown pooling 'maen'. Known: cls, mean, pooler."),
        (["a"], {"pooling": "attention"}, "has weights of its own. Take one of: cls, mean, pooler."),
    ],
)
def test_wrong_questions_are_refused(
    texts: Any, changes: dict[str, Any], says: str, tiny_encoder: Path, tokenizer: TextTokenizer
) -> None:
    with pytest.raises(DataError) as caught:
        vectors(make(tiny_encoder, tokenizer), texts, **changes)
    assert says in str(caught.value)
