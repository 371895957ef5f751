"""Target: the base class of every kind of answer, with all questions that the rest of palbert asks about it.

No torch at import: reading a recipe makes targets. Methods that compute on tensors import what they need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from palbert.errors import PalbertError
from palbert.registry import METRICS
from palbert.targets.decimals import label_key

if TYPE_CHECKING:
    from torch import Tensor

    from palbert.targets.probe import Probe

Labels = NDArray[Any]
"""Labels or predictions of several rows, as the target keeps them: (rows,), or (rows, classes)."""


@dataclass(frozen=True)
class Decoded:
    """What a head's outputs say about some rows."""

    predicted: Labels
    """One prediction per row, in the form of the labels that metrics compare."""
    probabilities: NDArray[np.float64] | None
    """(rows, classes); None where the target has no classes."""


class Target(ABC):
    """One kind of answer.

    Three forms of an answer appear below. A *label* is what files hold, read as a number or an array; labels of all
    rows are one array. A *prediction* is decoded from outputs and has the form of a label. An *answer* is what users
    see: a class name, a number, or a list of names.

    Args:
        classes: Class names in index order.
        range: The lowest and the highest number.
    """

    losses: ClassVar[tuple[str, ...]] = ()
    """The losses that fit, by name; the first one is the default."""
    smoothed_losses: ClassVar[tuple[str, ...]] = ()
    """Those of them that take `label_smoothing`."""
    metrics: ClassVar[tuple[str, ...]] = ()
    """The default metrics; the first one counts in the overall score."""
    other_metrics: ClassVar[tuple[str, ...]] = ()
    """Further metrics that fit."""
    default_classes: ClassVar[tuple[str, ...]] = ()
    """Class names where a recipe gives none."""
    dtype: ClassVar[str] = "int64"
    """The type of the labels in a training batch."""
    many: ClassVar[bool] = False
    """Whether a row has any number of labels: files may hold lists, and an empty cell is a row without labels."""
    numeric: ClassVar[bool] = False
    """Whether a label is a number, which files may write with a decimal comma."""
    calibrations: ClassVar[tuple[str, ...]] = ()
    """How its probabilities can be calibrated; none where outputs are not logits of a softmax or of sigmoids."""
    yes_or_no: ClassVar[bool] = False
    """Whether every output is the logit of a yes-or-no decision, which thresholds are chosen for."""
    divergence_directions: ClassVar[int] = 2
    """How many directions `divergence` adds up: 2 for a symmetric KL divergence, 1 for a distance."""
    precision_weight: ClassVar[float] = 1.0
    """The factor of a loss in uncertainty balancing: ½ for a Gaussian likelihood, 1 for a softmax or a sigmoid."""
    constant_answer: ClassVar[str] = "giving the same answer every time"
    """The constant baseline in words, for reports."""
    panels: ClassVar[str] = "plain"
    """Which panels reports show: a name in the registry `PANELS`, or "module:Class"."""

    def __init__(self, *, classes: Sequence[str] = (), range: tuple[float, float] | None = None) -> None:
        self.classes = tuple(classes)
        self.range = range
        self.choice: str | dict[str, Any] = f"{type(self).__module__}:{type(self).__qualname__}"
        """How a recipe names this target: its name, or a table of its name and options."""

    @property
    def name(self) -> str:
        """The name in a recipe."""
        return self.choice if isinstance(self.choice, str) else str(self.choice["name"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self.name, self.classes, self.range))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.choice!r}, classes={self.classes}, range={self.range})"

    def _identity(self) -> tuple[Any, ...]:
        return type(self), self.choice, self.classes, self.range

    def problems(self) -> list[str]:
        """Return what is wrong with the classes or the range, one phrase each."""
        if len(set(self.classes)) != len(self.classes):
            return ["a class is named twice"]
        alike = Counter(label_key(name) for name in self.classes)
        same = [name for name in self.classes if alike[label_key(name)] > 1]
        return [f"{' and '.join(same)} write the same number"] if same else []

    def fits(self, metric: str) -> bool:
        """Return whether a metric can score this target; metrics from outside palbert are trusted to."""
        return metric in (*self.metrics, *self.other_metrics) or ":" in metric or metric in METRICS.plugins

    # Labels

    @abstractmethod
    def read(self, value: Any) -> Any:
        """Return the label for one value of a file.

        Args:
            value: A text without spaces around it, or the number that a label mapping's factor gives; a list of
                texts where `many` is true.

        Raises:
            ValueError: The value is not a label. The message says what was expected, such as "a number".
        """

    def split(self, cell: str) -> list[str]:
        """Split the text of one cell into labels; called only where `many` is true."""
        raise NotImplementedError

    def array(self, labels: Sequence[Any]) -> Labels:
        """Return the labels of all rows as one array."""
        return np.array(labels, dtype=self.dtype)

    def gold(self, labels: Labels) -> Labels:
        """Return labels in the type that metrics compare."""
        return labels.astype(np.int64)

    @abstractmethod
    def spread(self, labels: Labels) -> str:
        """Describe in one short line how the labels of a split are distributed."""

    @abstractmethod
    def baseline(self, labels: Labels) -> Any:
        """Return the best constant prediction for these training labels."""

    # Outputs

    @property
    @abstractmethod
    def outputs(self) -> int:
        """The number of outputs of a head."""

    @abstractmethod
    def decode(self, outputs: Tensor) -> Decoded:
        """Return the predictions for a head's outputs, (rows, outputs)."""

    def decide(self, probabilities: NDArray[np.float64], thresholds: NDArray[np.float64]) -> Labels:
        """Return the predictions for thresholds, one per decision; called only where `yes_or_no` is true."""
        raise NotImplementedError

    def confidence(self, decoded: Decoded) -> NDArray[np.float64] | None:
        """Return the probability that each row's answer is right, (rows,); None where there is none."""
        return None

    @property
    def explained(self) -> tuple[str, ...]:
        """The names of what can be explained: one per class, or a single empty name for a number."""
        return self.classes or ("",)

    def log_odds(self, outputs: Tensor) -> Tensor:
        """Return the numbers that answers are decided on, differentiably: what explanations divide among words.

        The log odds of a class against all others, log p − log(1 − p); a number as it is before it is clipped.

        Args:
            outputs: The head's outputs, calibrated where they are, (rows, outputs).

        Returns:
            (rows, names in `explained`); the outputs themselves unless a target has another idea.
        """
        if outputs.shape[1] != len(self.explained):
            raise PalbertError(
                f"The target '{self.name}' does not say how its {outputs.shape[1]} outputs lead to its answers: "
                f"expected one output for each of {len(self.explained)} answers.",
                hint=f"Give {type(self).__name__} a method `log_odds(outputs)`.",
            )
        return outputs

    def decided(self, decoded: Decoded) -> NDArray[np.int64]:
        """Return which of `explained` is each row's answer, (rows,): the most probable class unless overridden."""
        if decoded.probabilities is None:
            return np.zeros(len(decoded.predicted), dtype=np.int64)
        return np.asarray(decoded.probabilities.argmax(axis=1), dtype=np.int64)

    @abstractmethod
    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the mean over rows of a symmetric distance between two outputs, (rows, outputs): ℓ_s of SMART."""

    @abstractmethod
    def soft_loss(self, outputs: Tensor, teacher_outputs: Tensor, *, temperature: float) -> Tensor:
        """Return the mean loss on what teachers answered.

        Args:
            outputs: (rows, outputs).
            teacher_outputs: The teachers' outputs, (rows, teachers, outputs).
            temperature: What logits are divided by.
        """

    # Probes

    def probe(self, features: Sequence[NDArray[Any]], labels: Labels) -> Probe | None:
        """Fit a linear model whose outputs `decode` understands, such as a logistic regression.

        Args:
            features: Groups of features of the training rows, each (rows, features).
            labels: Their labels.

        Returns:
            None where the target has no such model; reports then have no linear probe of its tasks.
        """
        return None

    def of_cosine(self, cosines: NDArray[Any]) -> Labels | None:
        """Return predictions for pairs, given only the cosine of their vectors; None unless that is an answer."""
        return None

    # Answers

    @abstractmethod
    def answer(self, predicted: Any) -> Any:
        """Return a prediction, or a label, as users see it: a value that JSON can hold."""

    def show(self, answer: Any) -> str:
        """Write an answer as text, for CSV files."""
        return str(answer)

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Return the prediction that `show` wrote; raise ValueError or KeyError if the text is none."""

    def line(self, answer: Any, probabilities: dict[str, float] | None) -> str:
        """Write an answer in one line of a terminal, likely classes first."""
        if probabilities is None:
            return self.show(answer)
        ordered = sorted(probabilities.items(), key=lambda item: -item[1])
        return f"{self.show(answer)}  ({', '.join(f'{name} {share:.3f}' for name, share in ordered)})"

    # Class shares and weights

    def class_indices(self, labels: Labels) -> NDArray[np.int64]:
        """Return the class of each row, (rows,); called only where `read_class_weights` takes weights."""
        raise NotImplementedError

    def read_class_weights(self, weights: Any) -> str | tuple[float, ...]:
        """Return "balanced" or the weight of each class, from what a recipe gives; ValueError where that is wrong."""
        raise ValueError(f"class_weights is for targets with one class per row; this task's target is '{self.name}'")

    def class_counts(self, labels: Labels) -> NDArray[np.int64]:
        """Return how many rows have each class; none where there are no classes."""
        return np.zeros(0, dtype=np.int64)

    def read_prior(self, prior: Any) -> tuple[float, ...]:
        """Return the share of each class from what a recipe gives; ValueError where that cannot be a prior."""
        raise ValueError(f"prior is for targets with classes; this task's target is '{self.name}'")

    def logit_shift(self, shares: NDArray[np.float64], prior: Sequence[float]) -> NDArray[np.float64]:
        """Return what turns logits for a prior into logits for the training rows, (outputs,).

        Args:
            shares: The share of each class among the training rows.
            prior: The share of each class where the model will be used.
        """
        raise NotImplementedError
