"""Gradients: scores of words by integrated gradients, and by gradient × input from a single step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palbert.errors import PalbertError
from palbert.explanations.explained import Explained
from palbert.explanations.row import SPECIAL, Row

Numbers = NDArray[np.float64]

FIRST_STEPS, MOST_STEPS = 32, 512
TOLERANCE = 0.01
"""The completeness error at which no more steps are taken."""
CANCELLED = 0.1
"""Where output and baseline are closer than this share of all scores' sizes, the error is measured by that share."""


@dataclass(frozen=True)
class TokenScores:
    """The score of each token of a row."""

    scores: Numbers
    """(tokens,), special tokens included."""
    output: float
    baseline: float
    steps: int | None = None
    error: float | None = None
    """How far the scores are from adding up to output − baseline, as a share of it."""


def integrated_gradients(
    explained: Explained,
    row: Row,
    baseline: Tensor,
    *,
    first_steps: int = FIRST_STEPS,
    most_steps: int = MOST_STEPS,
    tolerance: float = TOLERANCE,
) -> TokenScores:
    """Return the integrated gradients of a row's word embeddings, summed over each embedding (arXiv:1703.01365).

    (x − b) · ∫₀¹ ∇f(b + α (x − b)) dα, by Gauss–Legendre quadrature; steps are doubled until the scores add up to
    f(x) − f(b).

    Args:
        explained: The number f.
        row: The text or pair.
        baseline: The embeddings b that words start from, (tokens, width), see `replaced_words`.
        first_steps: The steps to begin with.
        most_steps: The steps at which doubling ends, whatever the error is.
        tolerance: The completeness error at which doubling ends.
    """
    steps = first_steps
    while True:
        found = _with_steps(explained, row, baseline, steps)
        assert found.error is not None
        if found.error <= tolerance or steps * 2 > most_steps:
            return found
        steps *= 2


def gradient_input(explained: Explained, row: Row, baseline: Tensor) -> TokenScores:
    """Return (x − b) · ∇f(x), summed over each embedding: what integrated gradients give for one step at the end."""
    values, gradient = _passes(explained, row, baseline, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    scores = _products(embeddings_of(explained, row) - baseline, gradient)
    return TokenScores(scores, float(values[0]), float(values[1]))


def replaced_words(explained: Explained, row: Row, token: int) -> Tensor:
    """Return the embeddings of a row, (tokens, width), in which one token stands for every word's tokens."""
    embeddings = embeddings_of(explained, row).clone()
    neutral = torch.tensor([token], dtype=torch.int32, device=explained.device)
    with torch.no_grad():
        embeddings[torch.from_numpy(row.word_of != SPECIAL)] = explained.model.encoder.word_embeddings(neutral)
    return embeddings


def embeddings_of(explained: Explained, row: Row) -> Tensor:
    """Return the word embeddings of a row, (tokens, width)."""
    with torch.no_grad():
        return explained.model.encoder.word_embeddings(row.copies(1).ids.to(explained.device))


def completeness_error(scores: Numbers, difference: float) -> float:
    """Return |Σ scores − difference| / |difference|.

    Where scores for and against an answer cancel out, the difference is near 0; a tenth of the sum of the scores' sizes
    then takes its place.
    """
    size = max(abs(difference), CANCELLED * float(np.abs(scores).sum()))
    gap = abs(float(scores.sum()) - difference)
    return gap / size if size > 0 else 0.0


def _with_steps(explained: Explained, row: Row, baseline: Tensor, steps: int) -> TokenScores:
    nodes, weights = np.polynomial.legendre.leggauss(steps)  # on −1 … 1
    places, shares = np.array([1.0, 0.0, *(nodes + 1) / 2]), np.array([0.0, 0.0, *weights / 2])
    values, mean = _passes(explained, row, baseline, places, shares)
    scores = _products(embeddings_of(explained, row) - baseline, mean)
    error = completeness_error(scores, float(values[0] - values[1]))
    return TokenScores(scores, float(values[0]), float(values[1]), steps, error)


def _passes(
    explained: Explained, row: Row, baseline: Tensor, places: Numbers, shares: Numbers
) -> tuple[Numbers, Tensor]:
    """Return f at places between baseline and text, (places,), and the weighted sum of its gradients there.

    Args:
        explained: The number f.
        row: The text or pair.
        baseline: Where the way begins, (tokens, width).
        places: From 0, the baseline, to 1, the text.
        shares: What the gradient at each place is multiplied by.
    """
    with torch.inference_mode(False), torch.enable_grad():
        inputs = embeddings_of(explained, row)
        values, total = [], torch.zeros_like(inputs)
        for chunk in explained.chunks(len(places), row.tokens):
            place, share = inputs.new_tensor(places[chunk]), inputs.new_tensor(shares[chunk])
            points = torch.lerp(baseline, inputs, place[:, None, None])  # (places, tokens, width)
            found, gradient = _pass(explained, row, points, share)
            values.append(found)
            total += gradient
    return np.concatenate(values), total


def _pass(explained: Explained, row: Row, points: Tensor, shares: Tensor) -> tuple[Numbers, Tensor]:
    """Return f at points, (points, tokens, width), and the weighted sum of its gradients, from one packed batch."""
    order = torch.from_numpy(row.order(len(points))).to(points.device)
    packed = torch.empty_like(points).flatten(0, 1)
    packed[order.flatten()] = points.flatten(0, 1)
    batch = row.copies(len(points)).to(explained.device)
    leaf = packed.requires_grad_()
    outputs = explained(batch, embeddings=leaf)
    if not outputs.requires_grad:
        raise PalbertError(
            f"tasks.{row.portion.task}: its outputs have no gradient.",
            hint="Its head or pooling leaves torch; take the method 'occlusion', which needs no gradients.",
        )
    [gradient] = torch.autograd.grad(outputs @ shares.to(outputs.dtype), [leaf])
    return outputs.detach().cpu().double().numpy(), gradient[order].sum(0)


def _products(difference: Tensor, gradient: Tensor) -> Numbers:
    scores: Numbers = (difference.cpu().double() * gradient.cpu().double()).sum(1).numpy()
    return scores
