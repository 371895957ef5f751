"""Classes: softmax and symmetric KL compared with scipy, soft losses with torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import softmax
from scipy.stats import entropy

from palbert.targets.classes import Classes

TARGET = Classes(classes=("a", "b", "c", "d"))


def outputs(seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(20, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_predictions_are_the_softmax_and_its_highest_class() -> None:
    decoded = TARGET.decode(outputs())
    assert decoded.probabilities is not None
    np.testing.assert_allclose(decoded.probabilities, softmax(outputs().numpy(), axis=1), rtol=1e-12)
    assert np.array_equal(decoded.predicted, outputs().argmax(1).numpy()) and decoded.predicted.dtype == np.int64


def test_the_divergence_equals_scipys_symmetric_kl() -> None:
    p, q = (softmax(each.numpy(), axis=1) for each in (outputs(), outputs(1)))
    expected = (entropy(p, q, axis=1) + entropy(q, p, axis=1)).mean()
    assert float(TARGET.divergence(outputs(), outputs(1))) == pytest.approx(expected)


def test_certain_teachers_equal_labels() -> None:
    labels = torch.arange(20) % 4
    certain = 1e4 * F.one_hot(labels, 4)[:, None].double()
    assert torch.allclose(TARGET.soft_loss(outputs(), certain, temperature=1.0), F.cross_entropy(outputs(), labels))


def test_the_soft_loss_is_kl_plus_the_teachers_entropy() -> None:
    taught, temperature = torch.stack([outputs(1), outputs(2)], dim=1), 2.5
    mean = (taught / temperature).softmax(2).mean(1)
    distance = F.kl_div((outputs() / temperature).log_softmax(1), mean, reduction="batchmean")
    spread = -(mean * mean.log()).sum(1).mean()
    loss = TARGET.soft_loss(outputs(), taught, temperature=temperature)
    assert torch.allclose(loss, temperature**2 * (distance + spread))


def test_the_baseline_is_the_most_frequent_class() -> None:
    labels = np.array([3, 1, 3, 0, 3])
    assert TARGET.baseline(labels) == 3
    assert TARGET.class_counts(labels).tolist() == [1, 1, 0, 3]
    assert TARGET.spread(labels) == "20% / 20% / 0% / 60%"


def test_too_few_or_repeated_classes_are_refused() -> None:
    assert "two or more names" in Classes(classes=("a",)).problems()[0]
    assert Classes(classes=("a", "a")).problems() == ["a class is named twice"]


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.5], "one share for each of 4 classes, found 2"),
        ([0.1] * 4, "add up to 1, found 0.4"),
        ([1.2, -0.4, 0.1, 0.1], "between 0 and 1, found 1.2, -0.4"),
        ({"a": 1.0}, "prior takes numbers"),
        (0.5, "prior takes numbers"),
        ("dev", "prior takes numbers.*found 'dev'"),
    ],
)
def test_shares_that_are_not_a_prior_are_refused(prior: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TARGET.read_prior(prior)


def test_the_shift_is_the_log_ratio_of_the_shares() -> None:
    shares, prior = np.array([0.1, 0.2, 0.3, 0.4]), (0.25,) * 4
    np.testing.assert_allclose(TARGET.logit_shift(shares, prior), np.log(shares / 0.25))


def test_classes_that_write_the_same_number_are_a_problem() -> None:
    assert Classes(classes=("1", "1.0", "2")).problems() == ["1 and 1.0 write the same number"]


def test_log_odds_are_those_of_each_class_against_all_others() -> None:
    target, outputs = Classes(classes=("a", "b", "c")), torch.tensor([[0.3, -1.0, 2.0], [50.0, 0.0, -50.0]])
    shares = outputs.double().softmax(dim=1)[0]
    found = target.log_odds(outputs)
    torch.testing.assert_close(found[0].double(), (shares / (1 - shares)).log(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(target.log_odds(outputs + 7)[0], found[0], atol=1e-5, rtol=1e-5)
    assert found.isfinite().all() and target.explained == ("a", "b", "c")
    assert target.decided(target.decode(outputs)).tolist() == [2, 0]
