"""Explained: the number of a batch, the size of batches, and outputs that are no numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import palbert
from palbert.errors import PalbertError
from palbert.explanations.explained import TOKENS, AbandonedError, Explained, while_wanted
from palbert.explanations.row import Row


def test_the_number_is_that_of_the_tasks_output(model: palbert.Predictor, smooth: Callable[[str], Explained]) -> None:
    texts = ["the plot", "rain and soup"]
    outputs = model.inference.outputs(model.task("tone"), (model.tokenizer(texts),))
    for text, expected in zip(texts, outputs, strict=True):
        row = Row.of(model.task("tone"), (text,), model.tokenizer)
        assert smooth("tone").values(row.copies(2)).tolist() == pytest.approx([expected[0].item()] * 2, abs=1e-5)


def test_copies_fill_batches_of_a_bounded_size(smooth: Callable[[str], Explained]) -> None:
    most = TOKENS["cpu"]
    assert list(smooth("sst").chunks(34, 20)) == [slice(0, 34)]
    assert list(smooth("sst").chunks(3, most - 1)) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert list(smooth("sst").chunks(2, 10 * most)) == [slice(0, 1), slice(1, 2)]


def test_outputs_that_are_no_numbers_are_reported(model: palbert.Predictor, smooth: Callable[[str], Explained]) -> None:
    number = smooth("sst")
    broken = Explained(number.model, lambda outputs: outputs[:, 0] / 0, number.device)
    row = Row.of(model.task("sst"), ("rain",), model.tokenizer)
    with pytest.raises(PalbertError, match=r"tasks\.sst: .* not numbers"), torch.inference_mode():
        broken.values(row.copies(1))


def test_what_nobody_wants_any_more_ends_before_the_next_batch(smooth: Callable[[str], Explained]) -> None:
    asked: list[bool] = []

    def is_wanted() -> bool:
        asked.append(True)
        return len(asked) < 3

    chunks = smooth("sst").chunks(4, 10 * TOKENS["cpu"])
    with while_wanted(is_wanted):
        assert [next(chunks), next(chunks)] == [slice(0, 1), slice(1, 2)]
        with pytest.raises(AbandonedError):
            next(chunks)
    assert len(list(smooth("sst").chunks(4, 10 * TOKENS["cpu"]))) == 4
