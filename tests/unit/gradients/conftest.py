"""Fixtures of the tests of gradient methods: a small model of several tasks, and the updates of methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palbert.gradients.kept import KeptGradients
from palbert.gradients.recomputed import RecomputedGradients
from palbert.gradients.weighted import WeightedGradients
from palbert.registry import GRADIENTS

MEMORIES: dict[str, type[WeightedGradients]] = {"keep": KeptGradients, "recompute": RecomputedGradients}
WEIGHTS = {"a": 1.0, "b": 0.5, "c": 2.0}


class Toy(nn.Module):
    """Two layers that all tasks share, one that b and c share, and a head each."""

    def __init__(self, tasks: Sequence[str] = tuple(WEIGHTS)) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.shared = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
        self.relation = nn.Linear(5, 5)
        self.heads = nn.ModuleDict({task: nn.Linear(5, 1) for task in tasks})
        self.unused = nn.Linear(2, 2)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)
        self.inputs = torch.randn(12, 6, generator=generator)
        self.labels = {task: 3 * torch.randn(12, generator=generator) for task in tasks}

    def losses(self, rows: slice = slice(None)) -> dict[str, Tensor]:
        hidden = self.shared(self.inputs[rows])
        related = self.relation(hidden)
        share = len(self.inputs[rows]) / len(self.inputs)
        return {
            task: (head(hidden if task == "a" else related).squeeze(1) - self.labels[task][rows]).square().mean()
            * share
            for task, head in self.heads.items()
        }


@pytest.fixture
def model() -> Toy:
    """Make a model of three tasks."""
    return Toy()


@pytest.fixture
def make() -> Callable[..., WeightedGradients]:
    """Return a function that makes a gradient method with a named weighting."""

    def made(
        name: str, weights: Mapping[str, float], parameters: list[Any], memory: str = "keep", **options: Any
    ) -> WeightedGradients:
        return MEMORIES[memory](weights, parameters=parameters, weighting=GRADIENTS[name](**options))

    return made


@pytest.fixture
def update(make: Callable[..., WeightedGradients]) -> Callable[..., Any]:
    """Return a function that gives the resulting gradient by parameter name, and the method."""

    def updated(model: Toy, name: str, *batches: Mapping[str, Tensor], **options: Any) -> Any:
        torch.manual_seed(0)
        method = make(name, WEIGHTS, list(model.parameters()), **options)
        for batch in batches or (model.losses(),):
            method.backward(batch)
        method.combine()
        found = {key: None if value.grad is None else value.grad.clone() for key, value in model.named_parameters()}
        model.zero_grad()
        return found, method

    return updated


@pytest.fixture
def line(make: Callable[..., WeightedGradients]) -> Callable[..., tuple[Tensor, WeightedGradients]]:
    """Return a function that gives the update of one vector whose tasks have these gradients, and the method."""

    def updated(
        *gradients: Sequence[float], name: str = "pcgrad", weights: Sequence[float] = (), **options: Any
    ) -> tuple[Tensor, WeightedGradients]:
        torch.manual_seed(0)
        vector = torch.zeros(len(gradients[0]), requires_grad=True)
        tasks = "abcdef"[: len(gradients)]
        given = dict(zip(tasks, weights, strict=True)) if weights else dict.fromkeys(tasks, 1.0)
        method = make(name, given, [vector], **options)
        method.backward({task: torch.tensor(row) @ vector for task, row in zip(tasks, gradients, strict=True)})
        method.combine()
        assert vector.grad is not None
        return vector.grad, method

    return updated
