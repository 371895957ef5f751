"""palbert.load(run).predict: shapes, lengths, order, and what is refused."""

from __future__ import annotations

import logging
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import palbert
from palbert.errors import CheckpointError, DataError, DeviceError
from palbert.runtime.precision import has_int8

pytestmark = pytest.mark.usefixtures("on_cpu")

WORDS = ["the", "plot", "soup", "guitar", "rain", "quiet", "dull", "phone", "dentist", "never", "and", "with", "of"]


@pytest.fixture(scope="module")
def model(on_cpu: None, trained: Path) -> palbert.Predictor:
    return palbert.load(trained)


def sentences(lengths: list[int], seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=length)) for length in lengths]


def test_loading_resets_the_precision_of_float32_products(trained: Path) -> None:
    torch.set_float32_matmul_precision("high")  # the state after a run in tf32
    palbert.load(trained, precision="fp32")
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_pair_task_answers_with_a_number_in_its_range(model: palbert.Predictor) -> None:
    [prediction] = model.predict("sts", [("A man plays a guitar.", "Someone makes music.")])
    assert isinstance(prediction.answer, float) and 0 <= prediction.answer <= 5
    assert prediction.probabilities is None
    assert prediction.as_dict() == {"prediction": prediction.answer}


def test_a_classification_task_answers_with_its_most_probable_class(model: palbert.Predictor) -> None:
    for prediction in model.predict("sst", sentences([3, 8, 20])):
        assert prediction.probabilities is not None
        assert list(prediction.probabilities) == list(model.tasks["sst"].classes)
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert prediction.answer == max(prediction.probabilities, key=prediction.probabilities.__getitem__)


def test_texts_of_mixed_lengths_get_the_same_answers_as_one_by_one(model: palbert.Predictor) -> None:
    texts = sentences([1, 60, 2, 300, 0, 17, 120, 5, 44, 3])
    together = model.predict("sst", texts)
    for text, prediction in zip(texts, together, strict=True):
        [alone] = model.predict("sst", [text])
        assert prediction.answer == alone.answer
        assert prediction.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
    assert len({round(prediction.probabilities["neutral"], 4) for prediction in together}) > 5


@pytest.mark.parametrize("task", ["sts", "quora"])
def test_pairs_of_mixed_lengths_get_the_same_answers_as_one_by_one(model: palbert.Predictor, task: str) -> None:
    pairs = list(zip(sentences([1, 90, 4, 200, 7], 1), sentences([70, 2, 4, 200, 1], 2), strict=True))
    together = model.predict(task, pairs)
    for pair, prediction in zip(pairs, together, strict=True):
        [alone] = model.predict(task, [pair])
        if prediction.probabilities is None:
            assert prediction.answer == pytest.approx(alone.answer, abs=1e-4)
        else:
            assert prediction.probabilities == pytest.approx(alone.probabilities, abs=1e-5)


def test_answers_keep_their_order_across_batches(model: palbert.Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = sentences([random.Random(3).randint(1, 40) + i % 7 for i in range(60)])
    whole = model.predict("sst", texts)
    monkeypatch.setattr("palbert.inference.evaluator.TOKENS_PER_BATCH", {"cpu": 64})
    cut = model.predict("sst", texts)
    for first, second in zip(whole, cut, strict=True):
        assert first.probabilities == pytest.approx(second.probabilities, abs=1e-5)


@pytest.mark.parametrize("text", ["", "   ", "🎸🔥 👩‍👩‍👧", "नमस्ते 你好 مرحبا", "\x00\x01\u200b\ufeff", "a\nb\tc\r\n"])
def test_odd_texts_are_answered(model: palbert.Predictor, text: str) -> None:
    [single] = model.predict("sst", [text])
    assert sum((single.probabilities or {}).values()) == pytest.approx(1)
    for task in ("sts", "quora"):
        for pair in ((text, "A man plays a guitar."), ("A man plays a guitar.", text), (text, text)):
            [prediction] = model.predict(task, [pair])
            shares = prediction.probabilities or {"number": float(prediction.answer)}
            assert all(math.isfinite(share) for share in shares.values())


def test_a_text_of_ten_thousand_characters_is_truncated_with_a_warning(
    model: palbert.Predictor, caplog: pytest.LogCaptureFixture
) -> None:
    [word] = sentences([1])
    long = " ".join([word] * 10_000)[:10_000]
    with caplog.at_level(logging.WARNING, logger="palbert"):
        [prediction] = model.predict("sst", [long])
    assert "1 of 1 rows were longer than 128 tokens" in caplog.text
    room = model.tasks["sst"].max_length - 2
    [cut] = model.predict("sst", [" ".join([word] * room)])
    assert prediction.probabilities == pytest.approx(cut.probabilities, abs=1e-6)


def test_no_texts_give_no_answers(model: palbert.Predictor) -> None:
    assert model.predict("sst", []) == []
    assert model.predict("sts", []) == []


def test_arrays_of_texts_are_accepted_like_lists(model: palbert.Predictor) -> None:
    texts = sentences([4, 9])
    assert model.predict("sst", np.array(texts, dtype=object)) == model.predict("sst", texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "texts", "says"),
    [
        ("sst", "one text", "takes a list"),
        ("sst", [("a", "b")], "a text per row; row 0 is ('a', 'b')"),
        ("sst", ["fine", None], "a text per row; row 1 is None"),
        ("sst", [3], "a text per row; row 0 is 3"),
        ("sst", [b"bytes"], "a text per row; row 0 is b'bytes'"),
        ("sts", ["alone"], """row 0 is 'alone'. Write predict("sts", [("first", "second")])."""),
        ("sts", [("a", "b", "c")], "a pair of texts per row; row 0 is ('a', 'b', 'c')"),
        ("sts", [("a", "b"), ("a", None)], "a pair of texts per row; row 1 is ('a', None)"),
        ("sts", [{"a": 1, "b": 2}], "a pair of texts per row; row 0 is {'a': 1, 'b': 2}"),
    ],
)
def test_rows_of_the_wrong_shape_are_refused(model: palbert.Predictor, task: str, texts: object, says: str) -> None:
    with pytest.raises(DataError) as caught:
        model.predict(task, texts)  # type: ignore[arg-type]
    assert f"Task '{task}'" in str(caught.value) and says in str(caught.value)


def test_text_that_is_not_valid_unicode_is_refused(model: palbert.Predictor) -> None:
    with pytest.raises(DataError, match="not valid Unicode"):
        model.predict("sst", ["fine", "half \ud83d of a character"])


def test_an_unknown_task_is_refused_with_the_nearest_name(model: palbert.Predictor) -> None:
    with pytest.raises(DataError) as caught:
        model.predict("qora", ["a"])
    assert str(caught.value) == "Unknown task 'qora'. Known: quora, sst, sts. Did you mean 'quora'?"


def test_a_checkpoint_is_chosen_by_name(trained: Path) -> None:
    texts = sentences([5, 12])
    best = palbert.load(trained).predict("sst", texts)
    assert palbert.load(trained, checkpoint="best").predict("sst", texts) == best
    assert palbert.load(trained / "checkpoints" / "best").predict("sst", texts) == best
    assert palbert.load(trained, checkpoint="best-sts").predict("sst", texts) != best


def test_an_unknown_checkpoint_is_refused_with_the_existing_ones(trained: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        palbert.load(trained, checkpoint="bets")
    assert (
        str(caught.value)
        == f"{trained}: no checkpoint 'bets'. There are: best, best-quora, best-sst, best-sts, last, previous."
    )


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere: no such folder\. Give the folder of a run\."):
        palbert.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        palbert.load(tmp_path)


@pytest.mark.skipif(not has_int8(), reason="needs a CPU with VNNI or AMX")
def test_int8_gives_nearly_the_answers_of_fp32(model: palbert.Predictor, trained: Path) -> None:
    texts = sentences([3, 8, 20, 40])
    pairs = list(zip(texts, sentences([5, 9, 2, 30], 1), strict=True))
    rounded = palbert.load(trained, precision="int8")
    for task in ("sst", "quora"):
        asked = texts if task == "sst" else pairs
        for int8, exact in zip(rounded.predict(task, asked), model.predict(task, asked), strict=True):
            assert int8.probabilities == pytest.approx(exact.probabilities, abs=0.03)
            assert int8 != exact
    answers = [prediction.answer for prediction in rounded.predict("sts", pairs)]
    assert answers == pytest.approx([prediction.answer for prediction in model.predict("sts", pairs)], abs=0.1)


@pytest.mark.skipif(not has_int8(), reason="needs a CPU with VNNI or AMX")
def test_int8_gives_a_text_the_same_answer_in_every_batch(trained: Path) -> None:
    rounded = palbert.load(trained, precision="int8")
    texts = sentences([7] * 5)
    for text, prediction in zip(texts, rounded.predict("sst", texts), strict=True):
        assert rounded.predict("sst", [text])[0].probabilities == pytest.approx(prediction.probabilities, abs=1e-3)


def test_int8_on_an_accelerator_is_refused(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.runtime.precision._has_mps", lambda: True)
    with pytest.raises(DeviceError, match="needs the CPU; the device is 'mps'"):
        palbert.load(trained, precision="int8")


def test_all_tasks_that_take_the_rows_answer_as_each_does_alone(model: palbert.Predictor) -> None:
    pairs = list(zip(sentences([1, 90, 4, 200, 7], 1), sentences([70, 2, 4, 200, 1], 2), strict=True))
    together = model.predict_all(pairs)
    assert [list(row) for row in together] == [["quora", "sts"]] * len(pairs)
    for task in ("quora", "sts"):
        for row, alone in zip(together, model.predict(task, pairs), strict=True):
            if alone.probabilities is None:
                assert row[task].answer == pytest.approx(alone.answer, abs=1e-6)
            else:
                assert row[task].probabilities == pytest.approx(alone.probabilities, abs=1e-6)
    texts = sentences([3, 8])
    assert model.predict_all(texts) == [{"sst": answer} for answer in model.predict("sst", texts)]
    assert model.predict_all([]) == []


def test_the_tasks_to_ask_can_be_named(model: palbert.Predictor) -> None:
    [row] = model.predict_all([("a", "b")], tasks=["sts"])
    assert list(row) == ["sts"]
    with pytest.raises(DataError, match="Task 'sst' takes a text per row"):
        model.predict_all([("a", "b")], tasks=["sts", "sst"])
    with pytest.raises(DataError, match="Unknown task 'stss'"):
        model.predict_all([("a", "b")], tasks=["stss"])
