"""Number: one number, such as a similarity from 0 to 5."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palbert.options import LARGEST_FLOAT
from palbert.targets.decimals import as_number
from palbert.targets.probe import RIDGE, Features, Probe, fit_probe
from palbert.targets.target import Decoded, Labels, Target

if TYPE_CHECKING:
    from torch import Tensor


class Number(Target):
    """A number; predictions are clipped to the range, labels outside it are errors."""

    losses = ("mse", "mae", "huber")
    metrics = ("pearson", "spearman", "mse")
    other_metrics = ("mae", "rmse", "median_absolute_error", "r2", "explained_variance")
    dtype = "float32"
    numeric = True
    divergence_directions = 1
    precision_weight = 0.5
    constant_answer = "answering the mean every time"
    panels = "number"

    def read(self, value: Any) -> float:
        """Return a number within the range."""
        low, high = self.range or (-math.inf, math.inf)
        number = as_number(value) if isinstance(value, str) else float(value)
        if number is None or not low <= number <= high:
            raise ValueError("a number" if self.range is None else f"a number from {low:g} to {high:g}")
        if abs(number) > LARGEST_FLOAT:  # labels are float32 in training
            raise ValueError(f"a number from {-LARGEST_FLOAT:.2g} to {LARGEST_FLOAT:.2g} (the range of float32)")
        return number

    def gold(self, labels: Labels) -> Labels:
        """Return labels as float64."""
        return labels.astype(np.float64)

    def spread(self, labels: Labels) -> str:
        """Write the least, the largest and the mean label."""
        return f"{labels.min():g} … {labels.max():g}, mean {labels.mean():.2f}"

    def baseline(self, labels: Labels) -> Any:
        """Return the mean."""
        return labels.mean()

    @property
    def outputs(self) -> int:
        """The number itself."""
        return 1

    def decode(self, outputs: Tensor) -> Decoded:
        """Return the outputs, clipped to the range."""
        numbers = outputs.double().cpu().squeeze(1).numpy()
        return Decoded(numbers if self.range is None else np.clip(numbers, *self.range), None)

    def divergence(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the squared difference."""
        return (first - second).square().sum(1).mean()

    def soft_loss(self, outputs: Tensor, teacher_outputs: Tensor, *, temperature: float) -> Tensor:
        """Return the squared distance from the mean of the teachers' numbers, at any temperature."""
        import torch.nn.functional as F

        return F.mse_loss(outputs, teacher_outputs.mean(1))

    def probe(self, features: Features, labels: Labels) -> Probe | None:
        """Fit a ridge regression."""
        return fit_probe(RIDGE, features, labels[:, None], order=labels)

    def of_cosine(self, cosines: NDArray[Any]) -> Labels | None:
        """Return the cosine times the highest number, as the head `cosine` does."""
        return cosines if self.range is None else np.clip(cosines * self.range[1], *self.range)

    def answer(self, predicted: Any) -> float:
        """Return the number."""
        return float(predicted)

    def show(self, answer: Any) -> str:
        """Write as many digits as float32 has, so that the same number is read again."""
        return str(np.float32(answer))

    def parse(self, text: str) -> float:
        """Read a number."""
        number = as_number(text)
        if number is None:
            raise ValueError("expected a number")
        return number

    def line(self, answer: Any, probabilities: dict[str, float] | None) -> str:
        """Write two digits after the point."""
        return f"{answer:.2f}"
