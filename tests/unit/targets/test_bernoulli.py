"""Bernoulli: the divergence compared with scipy's entropies, the soft loss with its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import entropy

from palbert.targets.bernoulli import bernoulli_divergence, bernoulli_soft_loss


def logits(*shape: int, seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_divergence_is_the_sum_over_logits_of_symmetric_kl() -> None:
    first, second = logits(6, 4), logits(6, 4, seed=1)
    p, q = (np.stack([expit(-each.numpy()), expit(each.numpy())]) for each in (first, second))
    expected = (entropy(p, q) + entropy(q, p)).sum(axis=1).mean()
    assert float(bernoulli_divergence(first, second)) == pytest.approx(expected)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_soft_loss_is_the_cross_entropy_with_the_mean_of_the_teachers(temperature: float) -> None:
    outputs, taught = logits(6, 4), logits(6, 3, 4, seed=1)
    mean, p = expit(taught.numpy() / temperature).mean(axis=1), expit(outputs.numpy() / temperature)
    expected = -(temperature**2) * (mean * np.log(p) + (1 - mean) * np.log1p(-p)).mean()
    assert float(bernoulli_soft_loss(outputs, taught, temperature=temperature)) == pytest.approx(expected)
