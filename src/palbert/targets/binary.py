"""Binary: yes or no, by a sigmoid over one logit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palbert.targets.bernoulli import bernoulli_divergence, bernoulli_soft_loss
from palbert.targets.classes import Classes
from palbert.targets.probe import LOGISTIC, Features, Probe, fit_probe
from palbert.targets.target import Decoded, Labels

if TYPE_CHECKING:
    from torch import Tensor


class Binary(Classes):
    """One of two classes; label 1 is the positive one."""

    losses = ("binary-cross-entropy", "binary-focal")
    smoothed_losses = ("binary-cross-entropy",)
    metrics = ("accuracy", "precision", "recall", "f1")
    other_metrics = ("macro_f1", *Classes.other_metrics)
    default_classes = ("no", "yes")
    calibrations = ("temperature", "platt")
    yes_or_no = True
    panels = "binary"

    def problems(self) -> list[str]:
        """Return a phrase for any other number of classes than two."""
        found = len(self.classes)
        wrong = [f"a {self.name} task has two classes, found {found}"] if found != 2 else []
        return wrong + [problem for problem in super().problems() if found >= 2]

    @property
    def outputs(self) -> int:
        """One logit, of yes."""
        return 1

    def decode(self, outputs: Tensor) -> Decoded:
        """Return yes where its probability is above one half."""
        import torch

        yes = outputs.double().cpu().squeeze(1).sigmoid()
        return Decoded((yes > 0.5).long().numpy(), torch.stack([1 - yes, yes], dim=1).numpy())

    def decide(self, probabilities: NDArray[np.float64], thresholds: NDArray[np.float64]) -> Labels:
        """Return yes where its probability is above the threshold."""
        return np.asarray(probabilities[:, 1] > thresholds[0], dtype=np.int64)

    def log_odds(self, outputs: Tensor) -> Tensor:
        """Return the log odds of no and of yes: the logit with either sign."""
        import torch

        return torch.cat([-outputs, outputs], dim=1)

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the symmetric KL divergence."""
        return bernoulli_divergence(first, second)

    def soft_loss(self, outputs: Tensor, teacher_outputs: Tensor, *, temperature: float) -> Tensor:
        """Return T² · binary cross-entropy with the mean of the teachers' probabilities at temperature T."""
        return bernoulli_soft_loss(outputs, teacher_outputs, temperature=temperature)

    def probe(self, features: Features, labels: Labels) -> Probe | None:
        """Fit a logistic regression."""
        return fit_probe(LOGISTIC, features, labels[:, None], order=labels)

    def read_prior(self, prior: Any) -> tuple[float, ...]:
        """Return the shares of no and yes; a number is the share of yes."""
        number = isinstance(prior, int | float) and not isinstance(prior, bool)
        return super().read_prior([1 - prior, prior] if number else prior)

    def logit_shift(self, shares: NDArray[np.float64], prior: Sequence[float]) -> NDArray[np.float64]:
        """Return the shift of the log odds of yes."""
        shift = super().logit_shift(shares, prior)
        return shift[1:] - shift[:1]
