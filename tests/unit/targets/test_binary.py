"""Binary: the logistic function, and what two classes give everywhere else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit

from palbert.targets.binary import Binary
from palbert.targets.classes import Classes

TARGET = Binary(classes=("no", "yes"))
TWO = Classes(classes=("no", "yes"))


def outputs(*shape: int, seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(*(shape or (20,)), 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def as_two(logits: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.zeros_like(logits), logits], dim=-1)


def test_yes_is_predicted_above_one_half() -> None:
    decoded = TARGET.decode(outputs())
    yes = expit(outputs().numpy()[:, 0])
    assert decoded.probabilities is not None
    np.testing.assert_allclose(decoded.probabilities, np.stack([1 - yes, yes], axis=1), rtol=1e-9, atol=1e-15)
    assert np.array_equal(decoded.predicted, (outputs()[:, 0] > 0).long().numpy())
    assert TARGET.decode(torch.zeros(1, 1)).predicted.tolist() == [0]


def test_divergence_and_soft_loss_are_those_of_two_classes() -> None:
    first, second, taught = outputs(), outputs(seed=1), outputs(20, 3, seed=2)
    torch.testing.assert_close(
        TARGET.divergence(first, second), TWO.divergence(as_two(first), as_two(second)), check_dtype=False
    )
    for temperature in (1.0, 4.0):
        found = TARGET.soft_loss(first, taught, temperature=temperature)
        torch.testing.assert_close(found, TWO.soft_loss(as_two(first), as_two(taught), temperature=temperature))


def test_a_number_is_the_share_of_yes() -> None:
    assert TARGET.read_prior(0.25) == TARGET.read_prior([0.75, 0.25]) == (0.75, 0.25)
    with pytest.raises(ValueError, match=r"between 0 and 1, found -0\.2, 1\.2"):
        TARGET.read_prior(1.2)


def test_the_shift_of_the_one_logit_is_the_difference_of_two() -> None:
    shares, prior = np.array([0.9, 0.1]), (0.4, 0.6)
    no, yes = TWO.logit_shift(shares, prior)
    np.testing.assert_allclose(TARGET.logit_shift(shares, prior), [yes - no])


def test_another_number_of_classes_is_a_problem() -> None:
    assert "has two classes, found 3" in Binary(classes=("a", "b", "c")).problems()[0]
    assert len(Binary(classes=("a",)).problems()) == 1


def test_log_odds_of_no_and_yes_are_opposite_and_a_threshold_decides_which_is_explained() -> None:
    target, outputs = Binary(classes=("no", "yes")), torch.tensor([[1.5], [-0.5]])
    assert target.log_odds(outputs).tolist() == [[-1.5, 1.5], [0.5, -0.5]]
    assert target.decided(target.decode(outputs)).tolist() == [1, 0]
    decoded = target.decode(outputs)
    assert decoded.probabilities is not None
    strict = target.decide(decoded.probabilities, np.array([0.9]))
    assert target.decided(type(decoded)(strict, decoded.probabilities)).tolist() == [0, 0]
