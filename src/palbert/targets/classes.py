"""Classes: one of several classes, by a softmax over one logit per class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from palbert.targets.class_weights import weights_in_order
from palbert.targets.labels import ClassIndex
from palbert.targets.prior import check_sum, shares_in_order
from palbert.targets.probe import SOFTMAX, Features, Probe, fit_probe
from palbert.targets.target import Decoded, Labels, Target

if TYPE_CHECKING:
    from torch import Tensor


class Classes(Target):
    """One of several classes; labels are class indices.

    Files may hold class names or indices; where names are numbers, names only.
    """

    losses: ClassVar[tuple[str, ...]] = ("cross-entropy", "focal")
    smoothed_losses: ClassVar[tuple[str, ...]] = ("cross-entropy",)
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    other_metrics: ClassVar[tuple[str, ...]] = (
        "balanced_accuracy",
        "macro_precision",
        "macro_recall",
        "weighted_f1",
        "mcc",
        "kappa",
        "quadratic_kappa",
        "roc_auc",
        "average_precision",
        "log_loss",
        "brier",
        "ece",
    )
    calibrations: ClassVar[tuple[str, ...]] = ("temperature",)
    constant_answer = "answering the most frequent class every time"
    panels = "classes"

    def __init__(self, *, classes: Sequence[str] = (), range: tuple[float, float] | None = None) -> None:
        super().__init__(classes=classes, range=range)
        self.index = ClassIndex(self.classes)

    def problems(self) -> list[str]:
        """Return a phrase for too few classes, or for one named twice."""
        few = [f'target "{self.name}" needs two or more names in classes = [...]'] if len(self.classes) < 2 else []
        return few + super().problems()

    def read(self, value: Any) -> int:
        """Return the class index of a name or an index."""
        return self.index.read(value)

    def spread(self, labels: Labels) -> str:
        """Write the share of each class."""
        return " / ".join(f"{share:.0%}" for share in self.class_counts(labels) / len(labels))

    def baseline(self, labels: Labels) -> int:
        """Return the most frequent class."""
        return int(self.class_counts(labels).argmax())

    @property
    def outputs(self) -> int:
        """One logit per class."""
        return len(self.classes)

    def decode(self, outputs: Tensor) -> Decoded:
        """Return the most likely class of each row."""
        probabilities = outputs.double().cpu().softmax(dim=1)
        return Decoded(probabilities.argmax(dim=1).numpy(), probabilities.numpy())

    def confidence(self, decoded: Decoded) -> NDArray[np.float64] | None:
        """Return the probability of the predicted class."""
        assert decoded.probabilities is not None, "a softmax and a sigmoid give probabilities"
        return np.take_along_axis(decoded.probabilities, decoded.predicted[:, None], axis=1)[:, 0]

    def log_odds(self, outputs: Tensor) -> Tensor:
        """Return log p − log(1 − p) of each class: its logit less the log-sum-exp of all other logits.

        A constant added to all logits changes no probability; it does not change these numbers either.
        """
        import torch

        others = outputs[:, None, :].expand(-1, outputs.shape[1], -1)  # (rows, classes, logits)
        own = torch.eye(outputs.shape[1], dtype=torch.bool, device=outputs.device)
        return outputs - others.masked_fill(own, -math.inf).logsumexp(dim=2)

    def decided(self, decoded: Decoded) -> NDArray[np.int64]:
        """Return the predicted class, which a threshold may make another than the most probable one."""
        return decoded.predicted.astype(np.int64)

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the symmetric KL divergence, KL(p‖q) + KL(q‖p) = Σ (p − q)(log p − log q); 0 for equal outputs.

        ℓ_s of arXiv:1911.03437, section 3.1.
        """
        p, q = first.log_softmax(dim=1), second.log_softmax(dim=1)
        return ((p.exp() - q.exp()) * (p - q)).sum(1).mean()

    def soft_loss(self, outputs: Tensor, teacher_outputs: Tensor, *, temperature: float) -> Tensor:
        """Return T² · cross-entropy with the mean of the teachers' probabilities at temperature T."""
        import torch.nn.functional as F

        mean = (teacher_outputs / temperature).softmax(2).mean(1)
        return temperature**2 * F.cross_entropy(outputs / temperature, mean)

    def probe(self, features: Features, labels: Labels) -> Probe | None:
        """Fit a multinomial logistic regression."""
        return fit_probe(SOFTMAX, features, np.eye(len(self.classes))[labels.astype(np.int64)], order=labels)

    def answer(self, predicted: Any) -> str:
        """Return the name of a class."""
        return self.classes[int(predicted)]

    def parse(self, text: str) -> int:
        """Return the index of a class name."""
        if text not in self.classes:
            raise ValueError(f"there is no class '{text}'")
        return self.classes.index(text)

    def class_counts(self, labels: Labels) -> NDArray[np.int64]:
        """Return how many rows have each class."""
        return np.bincount(labels.astype(np.int64), minlength=len(self.classes))

    def class_indices(self, labels: Labels) -> NDArray[np.int64]:
        """Return the labels themselves."""
        return labels.astype(np.int64)

    def read_class_weights(self, weights: Any) -> str | tuple[float, ...]:
        """Return "balanced", or weights from a list or a table by class name."""
        return weights_in_order(weights, self.classes)

    def read_prior(self, prior: Any) -> tuple[float, ...]:
        """Return shares that add up to 1, from a list or a table by class name."""
        shares = shares_in_order(prior, self.classes)
        check_sum(shares)
        return shares

    def logit_shift(self, shares: NDArray[np.float64], prior: Sequence[float]) -> NDArray[np.float64]:
        """Return log(π_train / π) of each class."""
        shift: NDArray[np.float64] = np.log(shares / (np.array(prior) / math.fsum(prior)))
        return shift
