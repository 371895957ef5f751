"""Explainer: every method explains every target, adapter, pooling and head, through Predictor.explain."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import palbert
from palbert.errors import DataError
from palbert.explanations.explainer import METHODS, Explainer
from palbert.explanations.gradients import integrated_gradients, replaced_words
from palbert.explanations.row import Row
from palbert.inference.decisions import Decision

Make = Callable[..., palbert.Predictor]
TEXTS: dict[str, list[Any]] = {
    "sst": ["The plot is dull .", "rain"],
    "tone": ["Rain and soup ."],
    "grade": ["never with the guitar"],
    "quora": [("a man plays the guitar", "rain and soup")],
    "sts": [("a man plays the guitar", "rain and soup"), ("rain", "Rain .")],
}
ADAPTERS: list[Any] = [
    {"name": "pal", "size": 4, "heads": 2},
    {"name": "lora", "rank": 2},
    {"name": "houlsby", "size": 4},
    {"name": "low-rank", "size": 4},
    {"name": "lora", "rank": 2, "per_task": False},
]
CHANGES: list[dict[str, Any]] = [
    {"sst": {"pooling": "cls"}, "quora": {"pooling": "attention"}, "sts": {"pooling": "cls", "head": "cosine"}},
    {"sst": {"pooling": "attention", "head": "linear"}, "sts": {"pooling": "attention", "head": "compare"}},
    {"sst": {"pooling": "pooler"}, "quora": {"pair_input": "siamese", "head": "concat"}, "sts": {"pooling": "pooler"}},
    {"quora": {"pair_input": "siamese", "head": "compare"}, "relation": {"name": "linear", "tasks": ["quora", "sts"]}},
    {"relation": {"name": "mlp", "tasks": ["sst", "tone"]}},
]


def check(model: palbert.Predictor, method: str) -> None:
    """Explain the answers of all tasks; check words, what is explained, and that scores add up where they must."""
    for name, texts in TEXTS.items():
        predicted = model.predict(name, texts)
        for given, answer, found in zip(texts, predicted, model.explain(name, texts, method=method), strict=True):
            columns = given if isinstance(given, tuple) else (given,)
            assert [word.text for word in found.words] == " ".join(columns).split()
            assert all(columns[word.column][word.start : word.end] == word.text for word in found.words)
            assert (found.task, found.method, found.special) == (name, method, 0.0)
            if answer.probabilities is None:
                clipped = np.clip(found.output, *(model.tasks[name].target.range or (-np.inf, np.inf)))
                assert found.target == "" and clipped == pytest.approx(answer.answer, abs=1e-4)
            else:
                share = 1 / (1 + np.exp(-found.output))
                assert share == pytest.approx(answer.probabilities[found.target], abs=1e-5)
                assert found.target == max(answer.probabilities, key=lambda each: answer.probabilities[each])
            if method == "integrated-gradients":
                total = sum(word.score for word in found.words)
                assert found.completeness_error is not None
                assert (
                    found.completeness_error <= 0.01 or found.steps == 512
                )  # |u − v| has a kink where both are masked
                assert total == pytest.approx(found.output - found.baseline, rel=0.03, abs=5e-3)
            assert any(abs(word.score) > 1e-6 for word in found.words)


@pytest.mark.parametrize("method", METHODS)
def test_every_target_is_explained(model: palbert.Predictor, method: str) -> None:
    check(model, method)


@pytest.mark.parametrize("adapters", ADAPTERS, ids=lambda each: each["name"])
def test_every_adapter_is_explained(make: Make, adapters: dict[str, Any]) -> None:
    check(make(adapters=adapters), "integrated-gradients")


@pytest.mark.parametrize("changes", CHANGES)
def test_every_pooling_head_and_relation_is_explained(make: Make, changes: dict[str, Any]) -> None:
    check(make(**changes), "integrated-gradients")


def test_a_named_class_is_explained_and_those_of_yes_and_no_are_opposite(model: palbert.Predictor) -> None:
    [no], [yes] = (model.explain("quora", TEXTS["quora"], target=name) for name in model.tasks["quora"].target.classes)
    assert no.output == pytest.approx(-yes.output) and no.target != yes.target
    assert [word.score for word in no.words] == pytest.approx([-word.score for word in yes.words], abs=1e-5)
    [two] = model.explain("tone", TEXTS["tone"], target="2")
    share = (model.predict("tone", TEXTS["tone"])[0].probabilities or {})["2"]
    assert two.target == "2" and 1 / (1 + np.exp(-two.output)) == pytest.approx(share, abs=1e-5)


def test_calibrated_probabilities_are_explained_as_they_are_shown(model: palbert.Predictor) -> None:
    [plain] = model.explain("tone", TEXTS["tone"], target="2", method="occlusion")
    model.inference.decisions["tone"] = Decision("platt", scale=(0.5,) * 5, shift=(2.0,) * 5)
    [found] = model.explain("tone", TEXTS["tone"], target="2", method="occlusion")
    assert found.output == pytest.approx(plain.output / 2 + 2, abs=1e-5)
    assert [word.score for word in found.words] == pytest.approx([word.score / 2 for word in plain.words], abs=1e-5)


def test_interactions_come_with_every_method_for_pairs_only(model: palbert.Predictor) -> None:
    for method in METHODS:
        [found] = model.explain("quora", TEXTS["quora"], method=method, interactions=True)
        assert found.interactions is not None and np.shape(found.interactions.values) == (5, 3)
    assert model.explain("quora", TEXTS["quora"])[0].interactions is None
    with pytest.raises(DataError, match="Task 'sst' takes single texts"):
        model.explain("sst", TEXTS["sst"], interactions=True)


@pytest.mark.parametrize(
    ("task", "options", "says"),
    [
        ("sst", {"method": "lime"}, "Unknown method 'lime'. Known: gradient-input, integrated-gradients, occlusion."),
        ("sst", {"target": "angry"}, "Task 'sst' has no class 'angry'."),
        ("sts", {"target": "5"}, "Task 'sts' answers with a number."),
        ("stss", {}, "Unknown task 'stss'."),
    ],
)
def test_mistakes_are_reported(model: palbert.Predictor, task: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError) as error:
        model.explain(task, TEXTS["sts"] if task == "sts" else ["rain"], **options)
    assert str(error.value).startswith(says)


def test_scores_that_miss_the_output_are_logged(
    model: palbert.Predictor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rough(explained: Any, row: Row, baseline: Any) -> Any:
        return integrated_gradients(explained, row, baseline * 50, first_steps=1, most_steps=1)

    monkeypatch.setattr("palbert.explanations.explainer.integrated_gradients", rough)
    with caplog.at_level(logging.WARNING, logger="palbert"):
        [found] = model.explain("sst", ["the plot is dull"])
    assert found.completeness_error is not None and found.completeness_error > 0.01
    assert "The scores miss the output by" in caplog.text


def test_an_empty_text_and_no_texts_are_explained(model: palbert.Predictor) -> None:
    assert model.explain("sst", []) == []
    for method in METHODS:
        [found] = model.explain("sst", [""], method=method)
        assert found.words == () and found.output == pytest.approx(found.baseline, abs=1e-5)
        [pair] = model.explain("sts", [("", "rain")], method=method, interactions=True)
        assert [word.text for word in pair.words] == ["rain"]
        assert pair.interactions is not None and pair.interactions.first == ()


def test_the_explainer_takes_its_own_models(model: palbert.Predictor) -> None:
    row = Row.of(model.task("grade"), ("rain",), model.tokenizer)
    explainer = model.explainer.explainer
    assert isinstance(explainer, Explainer)
    number = model.explainer._number(model.task("grade"), 0)
    found = explainer(model.task("grade"), ("rain",), target="", number=number)
    smooth = explainer.differentiable(number)
    expected = integrated_gradients(smooth, row, replaced_words(smooth, row, model.tokenizer.padding_id()))
    assert found.words[0].score == pytest.approx(row.by_word(expected.scores)[0][0])
