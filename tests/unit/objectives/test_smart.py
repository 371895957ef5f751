"""SMART: compared with a slow reference that takes one example at a time, and the laws of its perturbation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.errors import PalbertError
from palbert.objectives.objectives import Objectives
from palbert.objectives.smart import SMART

MakeScene = Callable[..., Any]
Norm = Literal["inf", "l2"]
LARGE: dict[str, Any] = {"epsilon": 0.05, "sigma": 0.01, "eta": 0.045}
"""A ball so large that distances are no rounding errors; some steps end outside of it."""


class FixedNoise(SMART):
    """SMART whose noise is a function of the word, so that it does not depend on how rows are batched."""

    def noise(self, words: Tensor) -> Tensor:
        return torch.sin(words * 1000) * self.sigma


def kl(p: Tensor, q: Tensor) -> Tensor:
    return (p * (p / q).log()).sum()


def distance(first: Tensor, second: Tensor, target: str) -> Tensor:
    """Return ℓ_s for one row, directly from its definition."""
    if target == "number":
        return (first - second).square().sum()
    if target == "binary":
        first, second = F.pad(first, (1, 0)), F.pad(second, (1, 0))  # logits of no and yes
    p, q = first.softmax(-1), second.softmax(-1)
    return kl(p, q) + kl(q, p)


def answer(scene: Any, task: str, rows: list[Tensor], words: list[Tensor], types: list[Tensor]) -> Tensor:
    """Return the outputs for one example alone, with its sequences given by their words."""
    lengths = [len(row) for row in rows]
    batch = PackedBatch(
        ids=torch.cat(rows),
        positions=torch.cat([torch.arange(length) for length in lengths]),
        types=torch.cat(types),
        starts=F.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int(),
        max_length=max(lengths),
        parts={task: Part(task, slice(0, len(rows)), slice(0, sum(lengths)), width=len(rows))},
    )
    return scene.model(batch, embeddings=torch.cat(words))[task][0]  # type: ignore[no-any-return]


def size(values: Tensor, norm: Norm) -> Tensor:
    return values.abs().max() if norm == "inf" else values.norm()


def projected(delta: Tensor, norm: Norm) -> Tensor:
    epsilon = LARGE["epsilon"]
    return delta.clamp(-epsilon, epsilon) if norm == "inf" else delta * min(1.0, epsilon / float(delta.norm()))


def slow_term(scene: Any, task: str, spans: list[slice], batch: PackedBatch, norm: Norm, steps: int) -> Tensor:
    """Return ℓ_s of one example, whose sequences lie at `spans`."""
    target = scene.tasks[task].target.name
    rows, types = [batch.ids[span] for span in spans], [batch.types[span] for span in spans]
    words = [scene.model.encoder.embeddings.word.weight[row] for row in rows]
    forward_pass = answer(scene, task, rows, words, types)
    deltas = [torch.sin(word.detach() * 1000) * LARGE["sigma"] for word in words]
    for _ in range(steps):
        deltas = [delta.detach().requires_grad_() for delta in deltas]
        moved = [word.detach() + delta for word, delta in zip(words, deltas, strict=True)]
        found = distance(answer(scene, task, rows, moved, types), forward_pass.detach(), target)
        gradients = torch.autograd.grad(found, deltas)
        deltas = [
            projected((delta + LARGE["eta"] * gradient / size(gradient, norm)).detach(), norm)
            for delta, gradient in zip(deltas, gradients, strict=True)
        ]
    moved = [word + delta for word, delta in zip(words, deltas, strict=True)]
    return distance(answer(scene, task, rows, moved, types), forward_pass, target)


def slow_smart(scene: Any, batch: PackedBatch, norm: Norm, steps: int) -> Tensor:
    """Add up the terms of all tasks, example by example."""
    total = torch.zeros(())
    for task, part in batch.parts.items():
        for example in range(part.examples):
            numbers = range(part.sequences.start + example, part.sequences.stop, part.examples)
            spans = [slice(int(batch.starts[number]), int(batch.starts[number + 1])) for number in numbers]
            total = total + slow_term(scene, task, spans, batch, norm, steps) / part.examples
    return total


@pytest.mark.parametrize("norm", ["inf", "l2"])
@pytest.mark.parametrize("steps", [1, 2])
def test_value_and_gradient_equal_a_slow_reference(scene: MakeScene, norm: Norm, steps: int) -> None:
    slow, fast = scene(), scene()
    batch = slow.batch()
    expected = 0.7 * slow_smart(slow, batch, norm, steps)
    expected.backward()
    term = FixedNoise(fast.goals, weight=0.7, norm=norm, steps=steps, **LARGE)
    found = sum(term(fast.model, batch, fast.forward_pass(batch)).values())
    found.backward()
    assert expected.item() > 1e-4
    assert found.item() == pytest.approx(expected.item(), rel=1e-3)
    gradient = slow.gradient()
    assert gradient.norm() > 1e-3
    assert (fast.gradient() - gradient).norm() < 2e-3 * gradient.norm()


@pytest.mark.parametrize("norm", ["inf", "l2"])
@pytest.mark.parametrize("settings", [{}, LARGE, {"epsilon": 0.3, "sigma": 2.0, "eta": 1.0, "steps": 3}])
def test_the_perturbation_of_every_sequence_stays_in_the_ball(
    scene: MakeScene, norm: Norm, settings: dict[str, Any]
) -> None:
    stage = scene(dropout=0.1)
    batch = stage.batch()
    term = SMART(stage.goals, norm=norm, **settings)
    words = stage.model.encoder.word_embeddings(batch.ids).detach()
    delta = term.perturbation(stage.model, batch, words, stage.model(batch))
    sizes = [float(size(part, norm)) for part in delta.split(batch.starts.diff().tolist())]
    assert len(sizes) == batch.sequences
    assert max(sizes) <= term.epsilon * (1 + 1e-5)
    assert min(sizes) > 0


def test_the_search_finds_a_larger_distance_than_noise_of_the_same_size(scene: MakeScene) -> None:
    stage = scene()
    batch = stage.batch()
    torch.manual_seed(0)
    forward_pass = stage.forward_pass(batch)
    term = SMART(stage.goals, epsilon=0.05, sigma=0.01, eta=0.05, steps=3)
    found = term(stage.model, batch, forward_pass)
    term.perturbation = lambda model, batch, words, outputs: 0.05 * torch.randn_like(words).sign()  # type: ignore[method-assign]
    random = term(stage.model, batch, forward_pass)
    assert all(found[task] > random[task] for task in found)
    assert sum(found.values()) > 2 * sum(random.values())


def test_the_search_leaves_no_gradient_behind(scene: MakeScene) -> None:
    stage = scene(dropout=0.1)
    batch = stage.batch()
    words = stage.model.encoder.word_embeddings(batch.ids)
    delta = SMART(stage.goals, steps=2).perturbation(
        stage.model, batch, words.detach(), stage.forward_pass(batch).outputs
    )
    assert not delta.requires_grad
    assert all(parameter.grad is None for parameter in stage.model.parameters())


@pytest.mark.parametrize("pieces", [2, 3, 6])
def test_pieces_give_the_same_term_and_gradient_as_one_batch(scene: MakeScene, pieces: int) -> None:
    def run(count: int) -> tuple[dict[str, float], Tensor]:
        stage = scene()
        term = FixedNoise(stage.goals, **LARGE)
        totals = dict.fromkeys(stage.tasks, 0.0)
        for rows in torch.arange(6).chunk(count):
            batch = stage.batch(rows.tolist())
            values = term(stage.model, batch, stage.forward_pass(batch))
            sum(values.values()).backward()
            for task, value in values.items():
                totals[task] += value.item()
        return totals, stage.gradient()

    (losses, gradient), (whole_losses, whole) = run(pieces), run(1)
    assert losses == pytest.approx(whole_losses, rel=1e-3)
    assert (gradient - whole).norm() < 2e-3 * whole.norm()


def test_gradients_flow_through_the_clean_pass_too(scene: MakeScene) -> None:
    stage = scene("number-joint")
    batch = stage.batch()
    forward_pass = stage.forward_pass(batch)
    outputs = forward_pass.outputs["number-joint"]
    outputs.retain_grad()
    FixedNoise(stage.goals, **LARGE)(stage.model, batch, forward_pass)["number-joint"].backward()
    assert outputs.grad is not None and outputs.grad.abs().sum() > 0


def test_a_term_for_some_tasks_does_not_affect_the_others(scene: MakeScene) -> None:
    stage = scene()
    batch = stage.batch()
    goals = {name: stage.goals[name] for name in ("binary-siamese", "number-joint")}
    some = FixedNoise(goals, **LARGE)(stage.model, batch, stage.forward_pass(batch))
    every = FixedNoise(stage.goals, **LARGE)(stage.model, batch, stage.forward_pass(batch))
    assert some.keys() == goals.keys()
    for task in goals:
        assert some[task].item() == pytest.approx(every[task].item(), rel=1e-3)


def test_works_under_autocast(scene: MakeScene) -> None:
    stage = scene(dropout=0.1)
    objective = Objectives(stage.supervised, [SMART(stage.goals)])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = objective(stage.model, stage.batch())
    torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
    assert all(loss.dtype == torch.float32 and loss.isfinite() for loss in losses.values())
    assert stage.gradient().isfinite().all() and stage.gradient().norm() > 0


def test_works_with_a_frozen_encoder(scene: MakeScene) -> None:
    stage = scene()
    stage.model.encoder.requires_grad_(False)
    batch = stage.batch()
    values = FixedNoise(stage.goals, **LARGE)(stage.model, batch, stage.forward_pass(batch))
    torch.stack(list(values.values())).sum().backward()
    assert stage.gradient().norm() > 0
    assert all(parameter.grad is None for parameter in stage.model.encoder.parameters())


@pytest.mark.parametrize(
    "settings",
    [{"weight": -1}, {"epsilon": 0}, {"sigma": 0}, {"eta": -1e-3}, {"steps": 0}, {"steps": 1.5}, {"norm": "l1"}],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(PalbertError, match=f"^{next(iter(settings))}: expected"):
        SMART({}, **settings)
