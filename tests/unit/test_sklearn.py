"""The scikit-learn estimators: scikit-learn's own checks where they apply to texts, and its laws on texts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks

import palbert
from palbert.sklearn import SentenceClassifier, SentenceEstimator, SentenceRegressor, read_texts

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

GOOD, BAD = ("good", "great", "lovely", "warm"), ("bad", "awful", "dull", "cold")
TEXTS = [f"a {word} film number {number}" for number in range(8) for word in (*GOOD, *BAD)]
LABELS = np.array(["yes" if text.split()[1] in GOOD else "no" for text in TEXTS])
KINDS = pytest.mark.parametrize("kind", [SentenceClassifier, SentenceRegressor])


@pytest.fixture(scope="module")
def make(tiny_encoder: Path) -> Callable[..., Any]:
    def make_estimator(kind: type[SentenceEstimator] = SentenceClassifier, **settings: Any) -> SentenceEstimator:
        steady = {"optimizer": {"schedule": "constant", "head_learning_rate": 3e-3}}
        task = {"pooling": "mean"}
        quick = {"epochs": 4, "batch_size": 8, "learning_rate": 3e-3, "task": task, "recipe": steady}
        return kind(str(tiny_encoder), **{**quick, **settings})

    return make_estimator


@pytest.fixture(scope="module")
def fitted(make: Callable[..., Any]) -> SentenceClassifier:
    estimator: SentenceClassifier = make().fit(TEXTS, LABELS)
    return estimator


@KINDS
@pytest.mark.parametrize(
    "check",
    [
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_estimator_tags_renamed,
        checks.check_valid_tag_types,
        checks.check_mixin_order,
        checks.check_no_attributes_set_in_init,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_parameters_default_constructible,
        checks.check_get_params_invariance,
        checks.check_set_params,
    ],
    ids=lambda check: check.__name__,
)
def test_a_check_of_scikit_learn_passes(check: Callable[[str, Any], None], kind: type[SentenceEstimator]) -> None:
    check(kind.__name__, kind())


@KINDS
def test_an_unfitted_model_refuses_to_predict(kind: type[SentenceEstimator]) -> None:
    with pytest.raises(NotFittedError):
        kind().predict(["a text"])


def test_labels_of_the_training_texts_are_learned_and_come_back_in_their_own_type(fitted: SentenceClassifier) -> None:
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.score(TEXTS, LABELS) > 0.9
    assert fitted.predict(TEXTS).dtype == LABELS.dtype


def test_whole_numbers_as_labels_come_back_as_whole_numbers(make: Callable[..., Any]) -> None:
    numbers = np.where(LABELS == "yes", 7, -1)
    predicted = make(epochs=1).fit(TEXTS, numbers).predict(TEXTS)
    assert predicted.dtype == numbers.dtype and set(predicted) <= {7, -1}


def test_probabilities_are_in_the_order_of_the_classes(fitted: SentenceClassifier) -> None:
    shares = fitted.predict_proba(TEXTS)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (fitted.classes_[shares.argmax(axis=1)] == fitted.predict(TEXTS)).all()


def test_a_prediction_does_not_depend_on_the_other_texts_or_their_order(fitted: SentenceClassifier) -> None:
    whole = fitted.predict_proba(TEXTS)
    np.testing.assert_allclose(whole[::-1], fitted.predict_proba(TEXTS[::-1]), atol=1e-6)
    np.testing.assert_allclose(whole[:1], fitted.predict_proba(TEXTS[:1]), atol=1e-6)


def test_fitting_again_gives_the_same_model_and_changes_no_parameter(make: Callable[..., Any]) -> None:
    estimator = make(epochs=1)
    before = estimator.get_params()
    first = estimator.fit(TEXTS, LABELS).predict_proba(TEXTS)
    second = estimator.fit(TEXTS, LABELS).predict_proba(TEXTS)
    assert estimator.get_params() == before
    np.testing.assert_array_equal(first, second)


def test_predicting_changes_nothing_that_can_be_seen(fitted: SentenceClassifier) -> None:
    before = {name: value for name, value in vars(fitted).items() if name != "_loaded"}
    fitted.predict(TEXTS)
    assert {name: value for name, value in vars(fitted).items() if name != "_loaded"} == before


@pytest.mark.parametrize(
    "copied", [lambda each: pickle.loads(pickle.dumps(each)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_a_copy_answers_alike_and_outlives_the_original(make: Callable[..., Any], copied: Callable[[Any], Any]) -> None:
    estimator = make(epochs=1).fit(TEXTS, LABELS)
    expected, folder = estimator.predict_proba(TEXTS), estimator.checkpoint_
    other = copied(estimator)
    del estimator
    assert not folder.exists()
    np.testing.assert_array_equal(other.predict_proba(TEXTS), expected)


@pytest.mark.parametrize("container", [list, np.array, pd.Series, lambda texts: pd.DataFrame({"text": texts})])
def test_texts_may_come_in_any_container(container: Callable[[list[str]], Any], fitted: SentenceClassifier) -> None:
    np.testing.assert_array_equal(fitted.predict(container(TEXTS)), fitted.predict(TEXTS))


def test_a_regressor_learns_the_numbers_of_pairs(make: Callable[..., Any]) -> None:
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    numbers = np.where(LABELS == "yes", 1.0, 4.0)
    regressor = make(SentenceRegressor, epochs=20, batch_size=16).fit(pairs, numbers)
    assert regressor.n_features_in_ == 2 and regressor.score(pairs, numbers) > 0.5


def test_rows_of_weight_zero_are_not_learned(make: Callable[..., Any]) -> None:
    wrong = np.concatenate([LABELS, np.where(LABELS == "yes", "no", "yes")])
    weights = np.concatenate([np.ones(len(TEXTS)), np.zeros(len(TEXTS))])
    texts = [*TEXTS, *(f"{text} again" for text in TEXTS)]
    assert make().fit(texts, wrong, sample_weight=weights).score(TEXTS, LABELS) > 0.8


def test_a_given_folder_keeps_the_run_with_its_report(make: Callable[..., Any], tmp_path: Path) -> None:
    estimator = make(epochs=1, folder=tmp_path / "run").fit(TEXTS, LABELS)
    assert (tmp_path / "run" / "report.html").is_file()
    [answer] = palbert.load(tmp_path / "run").predict("task", TEXTS[:1])
    assert answer.answer == estimator.predict(TEXTS[:1])[0]


def test_it_takes_part_in_pipelines_searches_and_cross_validation(make: Callable[..., Any]) -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    search = GridSearchCV(make(), {"epochs": [1, 8]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_ == {"epochs": 8}
    scores = cross_val_score(make_pipeline(lower, clone(search.best_estimator_)), TEXTS, LABELS, cv=2)
    assert len(scores) == 2 and np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", ["yes"], "found one text"),
        ([], [], "found none"),
        ([1.0, 2.0], ["a", "b"], "found 1.0 in row 0"),
        (["a", ("a", "b")], ["a", "b"], "in row 1"),
        (["a", "b"], ["only", "only"], "one class: 'only'"),
        (["a", "b", "c"], ["a", "b"], "inconsistent numbers of samples"),
        (["a", "b"], None, "requires y"),
    ],
)
def test_wrong_input_is_refused_in_the_words_of_scikit_learn(X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SentenceClassifier().fit(X, y)


def test_a_model_of_texts_refuses_pairs(fitted: SentenceClassifier) -> None:
    with pytest.raises(ValueError, match="X has 2 features, but SentenceClassifier is expecting 1"):
        fitted.predict([("a", "b")])


def test_rows_are_read_as_tuples_of_texts() -> None:
    assert read_texts(np.array([["a", "b"]])) == [("a", "b")]
    assert read_texts(pd.DataFrame({"x": ["a"], "y": ["b"]})) == [("a", "b")]


def test_weights_in_a_column_belong_to_rows_by_position(make: Callable[..., Any], tmp_path: Path) -> None:
    weights = pd.Series(np.arange(1.0, len(TEXTS) + 1), index=range(len(TEXTS), 0, -1))
    make(folder=tmp_path / "run", epochs=1).fit(TEXTS, LABELS, sample_weight=weights)
    rows = pd.read_json(tmp_path / "run" / "data" / "task-train.jsonl", lines=True)
    assert rows["weight"].tolist() == weights.tolist()


@pytest.mark.parametrize("recipe", [None, {"training": "auto"}, {"optimizer": {"weight_decay": 0.1}}])
def test_what_is_not_given_is_chosen_for_the_number_of_texts(
    make: Callable[..., Any], tmp_path: Path, recipe: Any
) -> None:
    settings = {"batch_size": None, "learning_rate": None, "task": None, "recipe": recipe}
    make(folder=tmp_path / "run", epochs=1, **settings).fit(TEXTS, LABELS)
    chosen = palbert.Run(tmp_path / "run").recipe
    assert (chosen.training.epochs, chosen.training.batch_size) == (1, 8)
    assert chosen.optimizer.schedule.name == "stlr" and chosen.tasks["task"].head_start == "probe"


def test_estimators_that_share_a_folder_keep_their_own_models(make: Callable[..., Any], tmp_path: Path) -> None:
    first = make(folder=tmp_path / "run", epochs=1).fit(TEXTS, LABELS)
    before = first.checkpoint_ and (first.checkpoint_ / "model.safetensors").read_bytes()
    make(folder=tmp_path / "run", epochs=1, random_state=5).fit(TEXTS, LABELS)
    assert (first.checkpoint_ / "model.safetensors").read_bytes() == before
    assert len(first.predict(TEXTS[:2])) == 2


def test_a_recipe_with_tasks_is_refused() -> None:
    with pytest.raises(ValueError, match="an estimator has one task"):
        SentenceClassifier(recipe={"tasks": {"other": {}}}).fit(TEXTS, LABELS)
