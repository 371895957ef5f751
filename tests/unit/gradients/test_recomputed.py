"""RecomputedGradients: the update of kept gradients, without holding more than one task's gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from palbert.gradients.gram import Gram
from palbert.registry import GRADIENTS

pytest.importorskip("torchjd")

METHODS = sorted(set(GRADIENTS) - {"sum"})


def test_recomputing_holds_one_gradient_at_a_time(model: Any, update: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the matrix is made, `.grad` holds one parameter's gradient at most."""
    most = 0
    original = Gram.add_product

    def counted(self: Gram, *arguments: Any) -> None:
        nonlocal most
        most = max(most, sum(parameter.grad is not None for parameter in model.parameters()))
        original(self, *arguments)

    monkeypatch.setattr(Gram, "add_product", counted)
    update(model, "pcgrad", memory="recompute")
    assert most == 0


@pytest.mark.parametrize("name", METHODS)
def test_keeping_and_recomputing_give_the_same_update(model: Any, update: Any, name: str) -> None:
    kept, _ = update(model, name, memory="keep")
    recomputed, _ = update(model, name, memory="recompute")
    for key, value in kept.items():
        torch.testing.assert_close(value, recomputed[key], rtol=1e-4, atol=1e-5)


def test_accumulation_is_refused_with_a_remedy(make: Any) -> None:
    method = make("pcgrad", {"a": 1.0, "b": 1.0}, [], "recompute")
    method.check(accumulation=1)
    with pytest.raises(ValueError, match=r"accumulation 2: .* Take memory = 'keep', or accumulation = 1\."):
        method.check(accumulation=2)


def test_a_single_task_is_refused_too(make: Any) -> None:
    with pytest.raises(ValueError, match="PCGrad with one task"):
        make("pcgrad", {"a": 1.0}, [], "recompute").check(accumulation=1)


def test_matrices_of_three_tasks_take_five_backward_passes(model: Any, make: Any) -> None:
    """T (T + 1) / 2 − 1 for the matrix, one for shared parameters, one for the tasks' own."""
    passes = 0
    original = torch.Tensor.backward

    def counted(self: torch.Tensor, *arguments: Any, **settings: Any) -> None:
        nonlocal passes
        passes += 1
        original(self, *arguments, **settings)  # type: ignore[no-untyped-call]

    method = make("pcgrad", {"a": 1.0, "b": 1.0, "c": 1.0}, list(model.parameters()), "recompute")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "backward", counted)
        method.backward(model.losses())
    assert passes == 5 + 2
