"""Gradients with weights from the Gram matrix: torchjd's updates on the whole Jacobian, however they are held."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palbert.errors import RecipeError
from palbert.gradients.kept import KeptGradients
from palbert.gradients.sum import Sum
from palbert.gradients.weighting import Weighting
from palbert.registry import GRADIENTS

aggregation = pytest.importorskip("torchjd.aggregation")

AGGREGATORS: dict[str, Callable[[], Any]] = {
    "aligned-mtl": aggregation.AlignedMTL,
    "cagrad": lambda: aggregation.CAGrad(c=0.4),
    "fairgrad": lambda: aggregation.FairGrad(alpha=1.0),
    "imtl-g": aggregation.IMTLG,
    "mgda": aggregation.MGDA,
    "pcgrad": aggregation.PCGrad,
    "upgrad": aggregation.UPGrad,
}
MEMORIES = ("keep", "recompute")
WEIGHTS = {"a": 1.0, "b": 0.5, "c": 2.0}


def is_shared(name: str) -> bool:
    return name.startswith(("shared", "relation"))


def flat(gradients: Mapping[str, Tensor | None]) -> Tensor:
    return torch.cat([value.flatten() for name, value in gradients.items() if is_shared(name) and value is not None])


def jacobian(model: Any, weights: Mapping[str, float] = WEIGHTS) -> Tensor:
    """Return each task's gradient over the shared parameters, (tasks, numbers)."""
    shared = [value for name, value in model.named_parameters() if is_shared(name)]
    rows = []
    for task, loss in model.losses().items():
        found = torch.autograd.grad(weights[task] * loss, shared, retain_graph=True, allow_unused=True)
        rows.append(torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten()
                               for p, g in zip(shared, found, strict=True)]))  # fmt: skip
    return torch.stack(rows)


def test_these_tests_compare_every_method_except_the_sum() -> None:
    assert set(GRADIENTS) == {*AGGREGATORS, "sum"}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_the_update_of_shared_parameters_equals_that_of_torchjd_on_the_jacobian(
    model: Any, update: Any, name: str, memory: str
) -> None:
    found, _ = update(model, name, memory=memory)
    matrix = jacobian(model)
    torch.manual_seed(0)
    ours, theirs = flat(found), AGGREGATORS[name]()(matrix)
    if name == "fairgrad":  # equal except for its norm
        ours, theirs = ours / ours.norm(), theirs / theirs.norm()
    torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_tasks_own_parameters_keep_their_own_gradient(model: Any, update: Any, name: str, memory: str) -> None:
    found, _ = update(model, name, memory=memory)
    Sum(WEIGHTS).backward(model.losses())
    for task in WEIGHTS:
        head = model.heads[task]
        assert isinstance(head, nn.Linear)
        torch.testing.assert_close(found[f"heads.{task}.weight"], head.weight.grad)
    assert found["unused.weight"] is None


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_step_of_one_task_equals_that_of_the_sum(model: Any, update: Any, name: str, memory: str) -> None:
    found, method = update(model, name, {"b": model.losses()["b"]}, memory=memory)
    Sum(WEIGHTS).backward({"b": model.losses()["b"]})
    for key, parameter in model.named_parameters():
        torch.testing.assert_close(found[key], parameter.grad)
    assert method.observations() == {}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_task_of_weight_0_is_ignored(line: Any, name: str, memory: str) -> None:
    first, second, third = (1.0, 0.5, 0.0), (-0.5, 2.0, 1.0), (3.0, -7.0, 1.0)
    found, method = line(first, third, second, name=name, memory=memory, weights=[1.0, 0.0, 1.0])
    expected, _ = line(first, second, name=name, memory=memory)
    torch.testing.assert_close(found, expected)
    assert set(method.observations()) == {"a/c"}
    alone, _ = line(first, third, name=name, memory=memory, weights=[1.0, 0.0])
    torch.testing.assert_close(alone, torch.tensor(first))


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e4])
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_the_update_scales_with_the_gradients(line: Any, name: str, scale: float) -> None:
    gradients = torch.tensor([[1.0, 0.5, 0.2], [-0.5, 1.0, 0.1], [0.3, -0.9, 1.0]])
    found, _ = line(*gradients.tolist(), name=name)
    scaled, _ = line(*(scale * gradients).tolist(), name=name)
    torch.testing.assert_close(scaled / scale, found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "gradients",
    [[(1.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0)], [(1.0, 2.0), (1.0, 2.0)], [(1.0, 2.0), (-1.0, -2.0)]],
    ids=["one of 0", "all of 0", "equal", "opposite"],
)
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_degenerate_gradients_give_finite_updates(line: Any, name: str, gradients: Any) -> None:
    assert line(*gradients, name=name)[0].isfinite().all()


@pytest.mark.parametrize("memory", MEMORIES)
def test_cosines_are_those_of_the_shared_gradients(model: Any, update: Any, memory: str) -> None:
    _, method = update(model, "pcgrad", memory=memory)
    rows = dict(zip("abc", jacobian(model), strict=True))
    expected = {
        f"{one}/{other}": float(nn.functional.cosine_similarity(rows[one], rows[other], dim=0))
        for one, other in ("ab", "ac", "bc")
    }
    assert {pair: float(value) for pair, value in method.observations().items()} == pytest.approx(expected, abs=1e-5)


def test_the_cosine_with_a_gradient_of_0_is_nan(line: Any) -> None:
    _, method = line((1.0, 0.0), (0.0, 0.0), (1.0, 1.0))
    assert {pair: bool(cosine.isnan()) for pair, cosine in method.observations().items()} == {
        "a/b": True, "a/c": False, "b/c": True,
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_loss_of_nan_reaches_the_gradient_but_not_the_solver(line: Any, name: str) -> None:
    assert line((1.0, 0.0), (float("nan"), 0.0), name=name)[0].isnan().any()


@pytest.mark.parametrize("memory", MEMORIES)
def test_tasks_that_share_nothing_are_summed_with_a_warning(
    model: Any, make: Any, memory: str, caplog: pytest.LogCaptureFixture
) -> None:
    model.shared.requires_grad_(False)
    model.relation.requires_grad_(False)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    method = make("pcgrad", WEIGHTS, parameters, memory)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            model.zero_grad()
            method.backward(model.losses())
            method.combine()
    assert [record.message for record in caplog.records] == [
        "PCGrad has no effect: no trained parameter is shared by two tasks."
    ]
    assert method.observations() == {}
    found = [parameter.grad for parameter in parameters]
    model.zero_grad()
    Sum(WEIGHTS).backward(model.losses())
    torch.testing.assert_close(found, [parameter.grad for parameter in parameters])


def test_a_weighting_that_gives_another_shape_is_refused() -> None:
    class Whole(Weighting):
        def __call__(self, gram: torch.Tensor) -> torch.Tensor:
            return gram

    with pytest.raises(RecipeError, match=r"^Whole gives weights of shape \(2, 2\); expected one per task, \(2,\)\.$"):
        KeptGradients({"a": 1.0, "b": 1.0}, parameters=[], weighting=Whole()).weigh(
            ["a", "b"], torch.eye(2), shared=True
        )
