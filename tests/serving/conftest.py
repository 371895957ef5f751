"""Fixtures of the tests of the service: tiny runs that it serves, and servers as child processes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import palbert

RECIPE: dict[str, Any] = {
    "seed": 1,
    "data": "samples",
    "tasks": {"sst": {}, "quora": {}, "sts": {"pair_input": "siamese", "pooling": "mean", "head": "cosine"}},
    "training": {"epochs": 1, "steps_per_epoch": 4, "batch_size": 8},
    "optimizer": {"learning_rate": 3e-3},
    "run": {"device": "cpu", "tensorboard": False},
}
"""A single text, a joint pair and a siamese pair."""


def train(encoder: Path, out: Path, **changes: Any) -> Path:
    """Train for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)  # reports without plots are quicker
        patch.setattr("torch.cuda.is_available", lambda: False)
        values = {**RECIPE, "encoder": {"name": str(encoder)}, **changes}
        return palbert.train(palbert.make_recipe(values), out=out).path


@pytest.fixture(scope="session")
def made(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the run that most tests serve copies of."""
    return train(tiny_encoder, tmp_path_factory.mktemp("served") / "mine")


@pytest.fixture(scope="session")
def newer(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the same tasks with another seed: the checkpoint that replaces the first one."""
    return train(tiny_encoder, tmp_path_factory.mktemp("newer") / "mine", seed=2)


@pytest.fixture(scope="session")
def adapted(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run in which each task has an adapter of its own."""
    out = tmp_path_factory.mktemp("adapted") / "pals"
    return train(tiny_encoder, out, adapters={"name": "pal", "size": 8, "heads": 2})


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the first run, next to which its audit log will be."""
    return Path(shutil.copytree(made, tmp_path / "mine"))
