"""Calibration: a scale and a shift of a head's outputs, fitted on dev, that make its probabilities trustworthy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from palbert.metrics import Values
from palbert.targets import Target

Numbers = NDArray[np.float64]

LARGEST = 100.0
"""Scales are between 1 / LARGEST and LARGEST, so the order of rows and classes never changes."""


def fit_calibration(method: str, target: Target, outputs: Numbers, gold: Values) -> tuple[Numbers, Numbers]:
    """Return the scale and the shift of the outputs, (1,) or (outputs,), with the least log loss on some rows.

    "temperature" divides all outputs by one temperature (arXiv:1706.04599). "platt" gives every yes-or-no decision a
    scale and a shift of its own (Platt 1999). Labels are smoothed a little by the number of rows, following Platt, so
    that rows without a mistake do not lead to infinite confidence.
    """
    if not target.yes_or_no:
        return _temperature(outputs, _smoothed_classes(gold, outputs.shape[1]), softmax=True), np.zeros(1)
    labels = gold.reshape(outputs.shape).astype(np.float64)
    if method == "temperature":
        return _temperature(outputs, _smoothed(labels, len(labels), len(labels)), softmax=False), np.zeros(1)
    pairs = [fit_platt(*column) for column in zip(outputs.T, labels.T, strict=True)]
    scales, shifts = np.array(pairs).T
    return scales, shifts


def log_loss(outputs: Numbers, labels: Numbers) -> float:
    """Return the mean of −q log p − (1 − q) log(1 − p), with the logits of p and labels q that may be smoothed."""
    return float(np.mean(np.logaddexp(0, outputs) - labels * outputs))


def fit_platt(outputs: Numbers, labels: Numbers) -> tuple[float, float]:
    """Return scale and shift of one logit, (rows,); 1 and 0 if all rows have the same label.

    Newton's method with step halving on the smoothed log loss, which is convex (Lin, Lin and Weng 2007).
    """
    positive = int(np.count_nonzero(labels == 1))
    if positive in (0, len(labels)):
        return 1.0, 0.0
    wanted = _smoothed(labels, positive, len(labels) - positive)
    spread = float(outputs.std()) or 1.0
    design = np.stack([outputs / spread, np.ones_like(outputs)])  # (2, rows)
    parameters = np.array([0.0, np.log((positive + 1) / (len(labels) - positive + 1))])

    def value(parameters: Numbers) -> float:
        return log_loss(parameters @ design, wanted)

    for _ in range(100):
        shares = _sigmoid(parameters @ design)
        gradient = design @ (shares - wanted) / len(outputs)
        if np.abs(gradient).max() < 1e-12:
            break
        curvature = (design * (shares * (1 - shares))) @ design.T / len(outputs)
        step = np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        size, before = 1.0, value(parameters)
        while size > 1e-10 and value(parameters - size * step) > before - 1e-4 * size * float(gradient @ step):
            size /= 2
        if size <= 1e-10:
            break
        parameters = parameters - size * step
    found = parameters[0] / spread
    scale = float(np.clip(found, 1 / LARGEST, LARGEST))
    if scale == found:
        return scale, float(parameters[1])
    return scale, _root(lambda shift: float(np.mean(_sigmoid(scale * outputs + shift) - wanted)), -1e3, 1e3)


def _temperature(outputs: Numbers, labels: Numbers, *, softmax: bool) -> Numbers:
    """Return 1 / T with the least log loss, (1,): where its slope, which rises with the scale, is 0."""

    def slope(logarithm: float) -> float:
        scaled = np.exp(logarithm) * outputs
        shares = _softmax(scaled) if softmax else _sigmoid(scaled)
        return float(np.mean((shares - labels) * outputs))

    return np.array([np.exp(_root(slope, -np.log(LARGEST), np.log(LARGEST)))])


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return where a rising function is 0, by bisection; an end if it is not between them."""
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


def _smoothed(labels: Numbers, positive: int, negative: int) -> Numbers:
    """Return (n₊ + 1) / (n₊ + 2) for yes and 1 / (n₋ + 2) for no, as Platt (1999) does."""
    return np.where(labels == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))


def _smoothed_classes(gold: Values, classes: int) -> Numbers:
    """Return (n + 1) / (n + 2) for the label's class, and an even share of the rest for the others."""
    rows = len(gold)
    labels = np.full((rows, classes), 1 / ((rows + 2) * (classes - 1)))
    labels[np.arange(rows), gold.astype(np.intp)] = (rows + 1) / (rows + 2)
    return labels


def _sigmoid(values: Numbers) -> Numbers:
    shares: Numbers = 0.5 * (1 + np.tanh(0.5 * values))
    return shares


def _softmax(values: Numbers) -> Numbers:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    shares: Numbers = powers / powers.sum(axis=1, keepdims=True)
    return shares
