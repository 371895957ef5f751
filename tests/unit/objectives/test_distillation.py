"""Laws of distillation: the mean of two losses, and soft targets that reduce to labels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from palbert.errors import PalbertError
from palbert.objectives import Goal
from palbert.objectives.distillation import Distillation, soft_loss
from palbert.objectives.supervised import cross_entropy


def test_certain_teachers_are_labels() -> None:
    outputs, labels = torch.randn(7, 4), torch.arange(7) % 4
    certain = 1e4 * F.one_hot(labels, 4)[:, None].float()
    assert torch.allclose(
        soft_loss(outputs, certain, target="classes", temperature=1.0), F.cross_entropy(outputs, labels)
    )
    yes = (1e4 * (2 * (labels % 2) - 1))[:, None, None].float()
    expected = F.binary_cross_entropy_with_logits(outputs[:, 0], (labels % 2).float())
    assert torch.allclose(soft_loss(outputs[:, :1], yes, target="binary", temperature=1.0), expected)


def test_the_loss_is_kl_plus_the_teachers_entropy() -> None:
    outputs, taught, temperature = torch.randn(6, 3), torch.randn(6, 2, 3), 2.5
    mean = (taught / temperature).softmax(2).mean(1)
    distance = F.kl_div((outputs / temperature).log_softmax(1), mean, reduction="batchmean")
    entropy = -(mean * mean.log()).sum(1).mean()
    loss = soft_loss(outputs, taught, target="classes", temperature=temperature)
    assert torch.allclose(loss, temperature**2 * (distance + entropy), atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_binary_is_two_classes(temperature: float) -> None:
    outputs, taught = torch.randn(6, 1), torch.randn(6, 3, 1)
    two = torch.cat([torch.zeros_like(outputs), outputs], 1), torch.cat([torch.zeros_like(taught), taught], 2)
    loss = soft_loss(outputs, taught, target="binary", temperature=temperature)
    assert torch.allclose(loss, soft_loss(*two, target="classes", temperature=temperature), atol=1e-6)


@pytest.mark.parametrize("target", ["classes", "binary", "number"])
def test_the_loss_is_least_at_the_teachers_own_answer(target: str) -> None:
    outputs = torch.randn(5, 3 if target == "classes" else 1)
    taught = outputs[:, None] + (torch.tensor([-1.0, 1.0])[None, :, None] if target == "number" else 0)
    at = outputs.clone().requires_grad_()
    soft_loss(at, taught, target=target, temperature=2.0).backward()  # type: ignore[arg-type]
    assert at.grad is not None and at.grad.abs().max() < 1e-6


def test_numbers_follow_the_mean_of_the_teachers() -> None:
    outputs, taught = torch.randn(5, 1), torch.randn(5, 3, 1)
    loss = soft_loss(outputs, taught, target="number", temperature=3.0)
    assert torch.allclose(loss, (outputs - taught.mean(1)).square().mean())


@pytest.mark.parametrize(
    ("goal", "options", "said"),
    [
        (Goal("classes", cross_entropy, task="sst"), {}, "none of its tasks has teachers"),
        (
            Goal("classes", cross_entropy, task="sst", taught=True),
            {"weight": 1.5},
            "weight: expected a number from 0 and up",
        ),
        (
            Goal("classes", cross_entropy, task="sst", taught=True),
            {"temperature": 0},
            "temperature: expected a number above 0",
        ),
    ],
)
def test_what_cannot_be_is_refused(goal: Goal, options: dict[str, float], said: str) -> None:
    with pytest.raises(PalbertError, match=said):
        Distillation({"sst": goal}, **options)
