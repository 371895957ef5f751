"""scikit-learn estimators: one task on one encoder, with fit, predict and score.

from palbert.sklearn import SentenceClassifier
SentenceClassifier().fit(texts, labels).predict(["A quiet little triumph."])
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from palbert.errors import MissingExtraError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length, check_random_state
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError:
    raise MissingExtraError("palbert.sklearn needs", package="scikit-learn", extra="sklearn") from None

if TYPE_CHECKING:
    from palbert.verbs.predict import Prediction, Predictor

TASK = "task"
"""The name of the one task, in logs and reports."""
COLUMNS = ("text", "second")
LABEL = "label"
WEIGHT = "weight"

Estimator = TypeVar("Estimator", bound="SentenceEstimator")


class SentenceEstimator(BaseEstimator):
    """What classifier and regressor share: a run of one task, on texts or on pairs of texts.

    Args:
        encoder: A folder, a Hub id, or "minilm".
        epochs: Passes over the training texts; chosen for their number unless given.
        batch_size: Texts per step; chosen for their number unless given.
        learning_rate: Peak rate of the encoder; chosen for the number of texts unless given.
        max_length: Tokens per text; longer ones are truncated.
        task: Further settings of the task, as in a recipe: `{"pooling": "mean"}`.
        recipe: Further settings of the recipe: `{"adapters": "pal"}`.
        validation_fraction: The share of the texts that is held out to choose the best epoch.
        random_state: The seed of the run, or a generator that draws it.
        folder: Where to keep the run with its report, replacing an earlier one; a temporary folder unless given.
        progress: Show a progress bar and a table of the epochs.

    Attributes:
        checkpoint_: The folder of the trained model, which `palbert.load` opens.
        n_features_in_: 1 for texts, 2 for pairs.
    """

    def __init__(
        self,
        encoder: str = "minilm",
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        max_length: int = 128,
        task: Mapping[str, Any] | None = None,
        recipe: Mapping[str, Any] | None = None,
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        folder: str | Path | None = None,
        progress: bool = False,
    ) -> None:
        self.encoder = encoder
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_length = max_length
        self.task = task
        self.recipe = recipe
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.folder = folder
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that X holds texts, or pairs of texts, not numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def fit(self: Estimator, X: Any, y: Any, sample_weight: Any = None) -> Estimator:
        """Train on texts, or pairs of texts, and their labels.

        Args:
            X: A list, array or column of texts; pairs are rows of two texts.
            y: One label per row.
            sample_weight: One weight per row.
        """
        from palbert.verbs.train import train

        texts = read_texts(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels = column_or_1d(y, warn=True)
        check_consistent_length(texts, labels, sample_weight)
        weights = None if sample_weight is None else column_or_1d(sample_weight, dtype=np.float64)
        self.n_features_in_ = len(texts[0])
        target, values = self._read_labels(labels)
        self._forget()
        train(
            self._make_recipe(target, weighted=weights is not None),
            data={TASK: _rows(texts, values, weights)},
            out=self._open_folder(),
            force=True,
            progress=self.progress,
        )
        best = Path(self._run_folder) / "checkpoints" / "best"
        if self.folder is None:
            self.checkpoint_ = best
        else:  # another estimator may train into the same folder
            self._write_files(_read_files(best))
        return self

    @abstractmethod
    def _read_labels(self, labels: NDArray[Any]) -> tuple[dict[str, Any], list[Any]]:
        """Return the settings of the target, and the labels as a file would hold them."""

    def _make_recipe(self, target: dict[str, Any], *, weighted: bool) -> dict[str, Any]:
        """Return the recipe of the run, as nested values."""
        own = dict(self.recipe or {})
        if "tasks" in own:
            raise ValueError("recipe has tasks, but an estimator has one task; give its settings as task={...}.")
        sections: dict[str, dict[str, Any]] = {
            "training": {"epochs": self.epochs, "batch_size": self.batch_size},
            "optimizer": {"learning_rate": self.learning_rate},
        }
        given = {
            section: {name: value for name, value in settings.items() if value is not None}
            for section, settings in sections.items()
        }
        if any(given.values()):  # what is not given is still chosen for the number of texts
            training = own.get("training", {})
            own["training"] = {"auto": True, **({} if training == "auto" else training), **given["training"]}
            own["optimizer"] = {**own.get("optimizer", {}), **given["optimizer"]}
        task = {
            "kind": ("single", "pair")[self.n_features_in_ - 1],
            "text": list(COLUMNS[: self.n_features_in_]),
            "label": LABEL,
            "dev": self.validation_fraction,
            "max_length": self.max_length,
            **({"row_weight": WEIGHT} if weighted else {}),
            **target,
            **(self.task or {}),
        }
        seed = check_random_state(self.random_state).randint(2**31) if self._draws_seed else self.random_state
        return {"encoder": self.encoder, "seed": seed, **own, "tasks": {TASK: task}}

    @property
    def _draws_seed(self) -> bool:
        return self.random_state is None or isinstance(self.random_state, np.random.RandomState)

    def _open_folder(self) -> Path:
        if self.folder is None:
            temporary = tempfile.mkdtemp(prefix="palbert-")
            self._finalizer = weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
            self._run_folder = str(Path(temporary) / "run")
        else:
            self._run_folder = str(self.folder)
        return Path(self._run_folder)

    def _answers(self, X: Any) -> list[Prediction]:
        """Return the predictions of the trained model."""
        check_is_fitted(self)
        texts = read_texts(X)
        if len(texts[0]) != self.n_features_in_:
            raise ValueError(
                f"X has {len(texts[0])} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input: texts where it was fitted on texts, pairs where it was fitted on pairs."
            )
        return self._predictor().predict(TASK, [row if len(row) == 2 else row[0] for row in texts])

    def _predictor(self) -> Predictor:
        """Load the trained model once."""
        if not hasattr(self, "_loaded"):
            from palbert.verbs.predict import load

            self._loaded = load(self.checkpoint_, trust=True)  # written by this estimator
        return self._loaded

    def _forget(self) -> None:
        """Drop the model of an earlier fit."""
        self.__dict__.pop("_loaded", None)
        if finalizer := self.__dict__.pop("_finalizer", None):
            finalizer()

    def __getstate__(self) -> dict[str, Any]:
        """Return a state that holds the files of the trained model, so that a copy outlives its folder."""
        state = {name: value for name, value in super().__getstate__().items() if name not in _NOT_COPIED}
        if "checkpoint_" in self.__dict__:
            state["_files"] = _read_files(self.checkpoint_)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Write the files of the trained model to a temporary folder."""
        files: dict[str, bytes] = state.pop("_files", {})
        super().__setstate__(state)
        if files:
            self._write_files(files)

    def _write_files(self, files: Mapping[str, bytes]) -> None:
        """Keep the files of a trained model in a temporary folder."""
        folder = Path(tempfile.mkdtemp(prefix="palbert-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        self.checkpoint_ = folder


_NOT_COPIED = ("_loaded", "_finalizer", "_run_folder")


class SentenceClassifier(ClassifierMixin, SentenceEstimator):
    """Classify texts, or pairs of texts, with a fine-tuned encoder.

    Labels may be texts or numbers. The arguments are those of `SentenceEstimator`.

    Attributes:
        classes_: The labels that were seen, sorted.
    """

    def _read_labels(self, labels: NDArray[Any]) -> tuple[dict[str, Any], list[Any]]:
        """Set `classes_`; name every class after its label."""
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"SentenceClassifier needs at least two classes, found one class: {self.classes_.tolist()[0]!r}."
            )
        self._names = [str(label).strip() or "(empty)" for label in self.classes_.tolist()]
        return {"target": "classes", "classes": self._names}, [self._names[index] for index in indices]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each text."""
        answers = [self._names.index(prediction.answer) for prediction in self._answers(X)]
        labels: NDArray[Any] = self.classes_[answers]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (texts, classes), in the order of `classes_`."""
        shares = [prediction.probabilities or {} for prediction in self._answers(X)]
        return np.array([[row[name] for name in self._names] for row in shares])


class SentenceRegressor(RegressorMixin, SentenceEstimator):
    """Predict a number for texts, or for pairs of texts, with a fine-tuned encoder.

    The arguments are those of `SentenceEstimator`.
    """

    def _read_labels(self, labels: NDArray[Any]) -> tuple[dict[str, Any], list[Any]]:
        numbers = labels.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError("Input y contains NaN or infinity.")
        # The best epoch is the one with the best R², which is the score of scikit-learn's regressors.
        return {"target": "number", "metrics": ["r2", "pearson", "mse"]}, numbers.tolist()

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return one number per text."""
        return np.array([prediction.answer for prediction in self._answers(X)], dtype=np.float64)


def _read_files(checkpoint: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(checkpoint.iterdir()) if path.is_file()}


def read_texts(X: Any) -> list[tuple[str, ...]]:
    """Return one tuple per row: one text, or two.

    Args:
        X: A list, array or column of texts, rows of one or two texts, or a table of one or two columns.

    Raises:
        ValueError: X is one text, is empty, or a row holds something else.
    """
    if isinstance(X, str):
        raise ValueError(f"Expected a list of texts, found one text. Write [{X!r:.40}].")
    values = X.to_numpy() if hasattr(X, "to_numpy") else X  # a table of pandas or polars iterates over its columns
    rows = [tuple(row) if isinstance(row, tuple | list | np.ndarray) else (row,) for row in values]
    if not rows:
        raise ValueError("Expected at least one text, found none.")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]) or len(row) not in (1, 2) or not all(isinstance(text, str) for text in row):
            wanted = "a text" if len(rows[0]) == 1 else "a pair of texts"
            found = row[0] if len(row) == 1 else row
            raise ValueError(f"Expected {wanted} per row, found {found!r:.60} in row {number}.")
    return [tuple(str(text) for text in row) for row in rows]


def _rows(
    texts: list[tuple[str, ...]], labels: list[Any], weights: NDArray[np.float64] | None
) -> Iterator[dict[str, Any]]:
    for index, row in enumerate(texts):
        weight = {} if weights is None else {WEIGHT: weights[index]}
        yield {**dict(zip(COLUMNS, row, strict=False)), LABEL: labels[index], **weight}
