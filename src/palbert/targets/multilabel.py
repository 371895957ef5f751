"""Multilabel: any number of classes per row, none included, by a sigmoid over one logit per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palbert.errors import PalbertError
from palbert.options import check_number
from palbert.targets.bernoulli import bernoulli_divergence, bernoulli_soft_loss
from palbert.targets.labels import ClassIndex
from palbert.targets.prior import shares_in_order
from palbert.targets.probe import LOGISTIC, Features, Probe, fit_probe
from palbert.targets.target import Decoded, Labels, Target

if TYPE_CHECKING:
    from torch import Tensor


NO = frozenset(("0", "0.0"))
BITS = NO | {"1", "1.0"}


class Multilabel(Target):
    """Any number of classes; the label of a row is 1 for each class that it has, and 0 for the others.

    Files hold lists of class names or indices (JSONL, Parquet), or texts such as "joy|anger"; an empty cell is a row
    without classes.

    Args:
        classes: Class names in index order.
        range: Not used.
        separator: What stands between the classes in a text.
        threshold: The probability above which a class is predicted: one for all, or a table by class name.
    """

    losses = ("binary-cross-entropy", "binary-focal")
    smoothed_losses = ("binary-cross-entropy",)
    metrics = ("micro_f1", "macro_f1", "subset_accuracy", "average_precision")
    other_metrics = (
        "micro_precision",
        "micro_recall",
        "macro_precision",
        "macro_recall",
        "weighted_f1",
        "jaccard",
        "hamming_loss",
        "roc_auc",
        "log_loss",
        "brier",
        "ece",
    )
    dtype = "float32"
    many = True
    calibrations = ("temperature", "platt")
    yes_or_no = True
    constant_answer = "giving every row the classes that most rows have"
    panels = "multilabel"

    def __init__(
        self,
        *,
        classes: Sequence[str] = (),
        range: tuple[float, float] | None = None,
        separator: str = "|",
        threshold: float | Mapping[str, float] = 0.5,
    ) -> None:
        super().__init__(classes=classes, range=range)
        if not isinstance(separator, str) or not separator.strip():
            raise PalbertError(f"separator: expected a text, found {separator!r}.")
        self.separator = separator
        self.index = ClassIndex(self.classes)
        self.thresholds = _thresholds(threshold, self.classes)

    def problems(self) -> list[str]:
        """Return a phrase for no classes, for one named twice, and for names that cells cannot hold."""
        none = [] if self.classes else [f'target "{self.name}" needs names in classes = [...]']
        split = [
            f"the class '{name}' holds the separator '{self.separator}'. Take another separator"
            for name in self.classes
            if self.separator in name
        ]
        padded = [
            f"the class {name!r} begins or ends with a space, or is empty" for name in self.classes if _padded(name)
        ]
        return none + split + padded + super().problems()

    def split(self, cell: str) -> list[str]:
        """Split a text at the separator."""
        return cell.split(self.separator)

    def read(self, value: Any) -> NDArray[np.float32]:
        """Return a 1 for each class in a list of names or indices, (classes,).

        Raises:
            ValueError: There is no such class, or the list has a 0 or 1 for each class.
        """
        if len(self.classes) > 1 and len(value) == len(self.classes) and set(value) <= BITS and set(value) & NO:
            raise ValueError("the names or indices of the row's classes and not a 0 or 1 for each class")
        label = np.zeros(len(self.classes), dtype=np.float32)
        label[[self.index.read(item) for item in value]] = 1
        return label

    def array(self, labels: Sequence[Any]) -> Labels:
        """Return the labels of all rows, (rows, classes)."""
        return np.stack(labels).astype(self.dtype)

    def spread(self, labels: Labels) -> str:
        """Write the share of rows with each class, and how many classes a row has."""
        shares = " / ".join(f"{share:.0%}" for share in labels.mean(axis=0))
        return f"{shares}, {labels.sum(axis=1).mean():.2f} per row"

    def baseline(self, labels: Labels) -> NDArray[np.float32]:
        """Return the classes that most rows have."""
        most: NDArray[np.float32] = np.asarray(labels.mean(axis=0) > 0.5, dtype=np.float32)
        return most

    @property
    def outputs(self) -> int:
        """One logit per class."""
        return len(self.classes)

    def decode(self, outputs: Tensor) -> Decoded:
        """Return the classes whose probability is above their threshold."""
        probabilities: NDArray[np.float64] = outputs.double().cpu().sigmoid().numpy()
        return Decoded(self.decide(probabilities, self.thresholds), probabilities)

    def decide(self, probabilities: NDArray[np.float64], thresholds: NDArray[np.float64]) -> Labels:
        """Return the classes whose probability is above their threshold."""
        return (probabilities > thresholds).astype(np.int64)

    def confidence(self, decoded: Decoded) -> NDArray[np.float64] | None:
        """Return the probability of the least certain decision about a class: given, or not given."""
        assert decoded.probabilities is not None, "sigmoids give probabilities"
        decided = np.where(decoded.predicted == 1, decoded.probabilities, 1 - decoded.probabilities)
        return np.asarray(decided.min(axis=1), dtype=np.float64)

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the symmetric KL divergence, summed over the classes."""
        return bernoulli_divergence(first, second)

    def soft_loss(self, outputs: Tensor, teacher_outputs: Tensor, *, temperature: float) -> Tensor:
        """Return T² · binary cross-entropy with the mean of the teachers' probabilities, as a mean over the classes."""
        return bernoulli_soft_loss(outputs, teacher_outputs, temperature=temperature)

    def probe(self, features: Features, labels: Labels) -> Probe | None:
        """Fit one logistic regression per class."""
        return fit_probe(LOGISTIC, features, labels, order=labels.sum(axis=1))

    def answer(self, predicted: Any) -> list[str]:
        """Return the names of the classes, in index order."""
        return [self.classes[index] for index in np.flatnonzero(predicted)]

    def show(self, answer: Any) -> str:
        """Join the names by the separator."""
        return self.separator.join(answer)

    def parse(self, text: str) -> NDArray[np.int64]:
        """Return a 1 for each class name in a text, (classes,)."""
        names = text.split(self.separator) if text else []
        unknown = [name for name in names if name not in self.classes]
        if unknown:
            raise ValueError(f"there is no class '{unknown[0]}'")
        return np.array([name in names for name in self.classes], dtype=np.int64)

    def line(self, answer: Any, probabilities: dict[str, float] | None) -> str:
        """Write the names, or "none", and the probability of each class."""
        line = super().line([], probabilities)
        return (", ".join(answer) or "none") + line

    def class_counts(self, labels: Labels) -> NDArray[np.int64]:
        """Return how many rows have each class."""
        return np.asarray(labels.sum(axis=0), dtype=np.int64)

    def read_class_weights(self, weights: Any) -> str | tuple[float, ...]:
        """Raise ValueError: a row may have several classes, so no weight of a row could stand for one of them."""
        raise ValueError(
            "class_weights is for targets with one class per row, and a row of a multilabel task may have several. "
            'To find rare classes, set threshold = "f1", a prior, or loss = "binary-focal"'
        )

    def read_prior(self, prior: Any) -> tuple[float, ...]:
        """Return the share of rows with each class, from a list or a table by class name; they need not add up to 1."""
        return shares_in_order(prior, self.classes)

    def logit_shift(self, shares: NDArray[np.float64], prior: Sequence[float]) -> NDArray[np.float64]:
        """Return the difference of the log odds, class by class."""
        return _log_odds(shares) - _log_odds(np.array(prior))


def _padded(name: str) -> bool:
    return not name or name != name.strip()


def _log_odds(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    odds: NDArray[np.float64] = np.log(shares) - np.log1p(-shares)
    return odds


def _thresholds(threshold: Any, classes: Sequence[str]) -> NDArray[np.float64]:
    """Return the threshold of each class: ½ where a table does not name it."""
    given = threshold if isinstance(threshold, Mapping) else dict.fromkeys(classes, threshold)
    unknown = [name for name in given if name not in classes]
    if unknown:
        raise PalbertError(f"threshold: there is no class '{unknown[0]}'.")
    checked = {name: check_number("threshold", value, above=0, below=1) for name, value in given.items()}
    return np.array([checked.get(name, 0.5) for name in classes])
