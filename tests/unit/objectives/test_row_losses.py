"""Row losses: every loss gives each row's own, and weights act as repeated rows do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from palbert.batch import Part
from palbert.build.objectives import make_loss
from palbert.errors import RecipeError
from palbert.objectives import Loss
from palbert.objectives.distillation import Distillation
from palbert.objectives.logit_adjustment import LogitAdjusted, class_shares
from palbert.objectives.row_losses import gives_row_losses, part_loss
from palbert.recipe.load import make_recipe
from palbert.registry import LOSSES
from palbert.tasks.choices import Component, make_target

ROWS, CLASSES = 12, 5


def example(name: str) -> tuple[Tensor, Tensor]:
    """Return outputs and labels that fit a loss."""
    generator = torch.Generator().manual_seed(0)
    if name in ("cross-entropy", "focal"):
        outputs, labels = torch.randn(ROWS, CLASSES, generator=generator), torch.arange(ROWS) % CLASSES
    elif name.startswith("binary"):
        outputs, labels = torch.randn(ROWS, 1, generator=generator), torch.arange(ROWS) % 2
    else:
        outputs, labels = torch.randn(ROWS, 1, generator=generator), torch.rand(ROWS, generator=generator) * 5
    return outputs, labels


def part(labels: Tensor, weights: Tensor | None) -> Part:
    return Part(task="own", sequences=slice(0, len(labels)), tokens=slice(0, 0), labels=labels, weights=weights)


@pytest.mark.parametrize("name", list(LOSSES))
def test_the_mean_of_the_row_losses_is_the_loss(name: str) -> None:
    outputs, labels = example(name)
    rows = LOSSES[name](outputs, labels, reduction="none")
    assert rows.shape == (ROWS,)
    torch.testing.assert_close(rows.mean(), LOSSES[name](outputs, labels))


@pytest.mark.parametrize("name", ["binary-cross-entropy", "binary-focal"])
def test_the_loss_of_a_row_with_several_labels_is_their_mean(name: str) -> None:
    outputs, labels = torch.randn(4, 3), (torch.rand(4, 3) > 0.5).float()
    rows = LOSSES[name](outputs, labels, reduction="none")
    alone = [LOSSES[name](outputs[row : row + 1], labels[row : row + 1]) for row in range(4)]
    torch.testing.assert_close(rows, torch.stack(alone))


@pytest.mark.parametrize("name", list(LOSSES))
def test_whole_weights_give_the_loss_and_gradient_of_repeated_rows(name: str) -> None:
    outputs, labels = example(name)
    times = torch.tensor([1, 0, 2, 3, 1, 1, 0, 4, 2, 1, 1, 1])
    weights = times / times.float().mean()
    outputs.requires_grad_()
    weighted = part_loss(LOSSES[name], outputs, part(labels, weights), name="own")
    repeated = LOSSES[name](outputs.repeat_interleave(times, dim=0), labels.repeat_interleave(times))
    torch.testing.assert_close(weighted, repeated, check_dtype=False)
    first, second = (torch.autograd.grad(loss, outputs)[0] for loss in (weighted, repeated))
    torch.testing.assert_close(first, second)


def test_without_weights_the_loss_is_called_as_before() -> None:
    def own(outputs: Tensor, labels: Tensor) -> Tensor:
        return outputs.mean() + labels.float().mean()

    outputs, labels = example("mse")
    assert part_loss(own, outputs, part(labels, None), name="own") == own(outputs, labels)


def test_weighted_pieces_of_a_step_add_up_to_the_whole() -> None:
    outputs, labels = example("cross-entropy")
    weights = torch.rand(ROWS)
    whole = part_loss(LOSSES["cross-entropy"], outputs, part(labels, weights), name="own")
    pieces = [
        len(rows)
        / ROWS
        * part_loss(LOSSES["cross-entropy"], outputs[rows], part(labels[rows], weights[rows]), name="x")
        for rows in torch.arange(ROWS).split(5)
    ]
    torch.testing.assert_close(torch.stack(pieces).sum(), whole)


class _Module(nn.Module):
    def forward(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        return outputs.sum() if reduction == "mean" else outputs.sum(1)


def test_losses_that_give_rows_are_told_from_those_that_do_not() -> None:
    assert all(gives_row_losses(LOSSES[name]) for name in LOSSES)
    assert gives_row_losses(functools.partial(LOSSES["focal"], gamma=1.0)) and gives_row_losses(_Module())
    assert not gives_row_losses(lambda outputs, labels: outputs.mean())
    assert not gives_row_losses(nn.Identity())


def test_row_losses_of_a_wrong_shape_are_refused() -> None:
    outputs, labels = example("mse")
    with pytest.raises(RecipeError, match=r"gives a tensor of shape \(12, 1\) for 'own'.*one number for each of 12"):
        part_loss(lambda o, y, reduction: o, outputs, part(labels, torch.ones(ROWS)), name="own")


def mean_only(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss of a user's own, without the losses of rows."""
    return (outputs[:, 0] - labels).square().mean()


@pytest.mark.parametrize("setting", [{"row_weight": "w"}, {"extra": {"more": {"train": "x.tsv", "row_weight": "w"}}}])
def test_weights_with_a_loss_that_gives_only_the_mean_are_refused_with_the_remedy(setting: dict[str, object]) -> None:
    loss = f"{__name__}:mean_only"
    task = make_recipe({"data": "samples", "tasks": {"sts": {"loss": loss, **setting}}}, check_files=False).tasks["sts"]
    with pytest.raises(RecipeError, match=r"weights need the loss of each row.*argument reduction"):
        make_loss(task)


def test_reduction_is_not_an_option_of_a_recipe() -> None:
    task = make_recipe({"data": "samples", "tasks": {"sst": {"loss": {"name": "focal", "reduction": "none"}}}}).tasks
    with pytest.raises(RecipeError, match="'reduction' is not an option: palbert sets it"):
        make_loss(task["sst"])


def test_a_prior_takes_the_shares_of_the_weights() -> None:
    target = make_target(Component(name="classes"), classes=("a", "b"), range=None)
    labels, weights = np.array([0, 0, 0, 1]), np.array([1.0, 1.0, 1.0, 3.0])
    assert class_shares(target, labels).tolist() == [0.75, 0.25]
    assert class_shares(target, labels, weights).tolist() == [0.5, 0.5]
    many = make_target(Component(name="multilabel"), classes=("a", "b"), range=None)
    rows: NDArray[np.float32] = np.array([[1, 0], [1, 1], [0, 0]], dtype=np.float32)
    assert class_shares(many, rows, np.array([1.0, 2.0, 1.0])).tolist() == [0.75, 0.5]


def test_an_adjusted_loss_gives_row_losses_of_the_shifted_logits() -> None:
    outputs, labels = example("cross-entropy")
    shift = np.linspace(-1, 1, CLASSES)
    loss: Loss = LogitAdjusted(LOSSES["cross-entropy"], shift)
    rows = loss(outputs, labels, reduction="none")
    torch.testing.assert_close(rows.mean(), loss(outputs, labels))


def test_distillation_replaces_the_weighted_loss_on_the_labels(scene: Callable[..., Any]) -> None:
    own = scene("classes")
    plain = own.batch().parts["classes"]
    teachers = torch.randn(plain.examples, 1, 5)
    weighted = replace(plain, weights=torch.rand(plain.examples), teacher_outputs=teachers)
    batch = replace(own.batch(), parts={"classes": weighted})
    goals = {name: replace(goal, has_teachers=True) for name, goal in own.goals.items()}
    forward_pass = own.forward_pass(batch)
    added = Distillation(goals, weight=1.0).values(own.model, batch, forward_pass)["classes"]
    outputs, goal = forward_pass.outputs["classes"], goals["classes"]
    labelled = part_loss(goal.loss, outputs, weighted, name="classes")
    torch.testing.assert_close(labelled + added, goal.target.soft_loss(outputs, teachers, temperature=1.0))
