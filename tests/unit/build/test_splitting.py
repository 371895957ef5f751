"""Splitting: which parameters one backward pass gives per task, and what prevents it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from palbert.build.splitting import find_trunk
from palbert.gradients.split import Trunk
from palbert.model import factors
from palbert.model.multitask import MultiTaskModel
from palbert.objectives.objectives import Objectives
from palbert.objectives.rdrop import RDrop
from palbert.recipe.load import make_recipe
from palbert.registry import OBJECTIVES
from palbert.runtime.run_folder import RunFolder
from palbert.verbs import train as verb

Find = Callable[..., tuple[Trunk | None, Any]]


@pytest.fixture
def find(tiny_recipe: dict[str, Any], tmp_path: Path) -> Find:
    """Return a function that finds the trunk of a run, with sections of the recipe changed, and its model."""

    def found(*, tokens: float = 100, processes: int = 1, **changes: Any) -> tuple[Trunk | None, Any]:
        values = copy.deepcopy(tiny_recipe)
        for key, section in changes.items():
            values[key] = {**values.get(key, {}), **section}
        run = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()
        model, objective = run.trainer.model, run.trainer.objective
        assert isinstance(model, MultiTaskModel) and isinstance(objective, Objectives)
        trunk = find_trunk(model, objective, run.machine, tokens=tokens, tasks=3, processes=processes)
        return trunk, model

    return found


def identities(parameters: Any) -> set[int]:
    return {id(parameter) for parameter in parameters}


def test_the_trunk_holds_the_trained_parameters_below_the_pooler(find: Find) -> None:
    trunk, model = find()
    assert trunk is not None
    assert identities(trunk.shared) == identities(model.encoder.trunk().parameters())
    assert list(trunk.own) == []


def test_the_trunk_has_neither_adapters_nor_frozen_parameters(find: Find) -> None:
    trunk, model = find(adapters={"name": "pal", "size": 8, "heads": 2}, encoder={"frozen": True})
    assert trunk is not None
    assert list(trunk.shared) == []
    assert identities(trunk.own) == identities(model.adapters.parameters())


@pytest.mark.parametrize(("tokens", "processes", "kept"), [(10, 1, True), (10**6, 1, False), (10, 2, False)])
def test_factors_of_large_weights_are_kept_for_few_tokens_in_one_process(
    find: Find, monkeypatch: pytest.MonkeyPatch, tokens: float, processes: int, kept: bool
) -> None:
    monkeypatch.setattr(factors, "LARGE", 0)
    trunk, model = find(tokens=tokens, processes=processes)
    assert trunk is not None
    assert (id(model.encoder.embeddings.word.weight) in identities(trunk.large)) is kept


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"encoder": {"mixout": 0.5}}, "the encoder has custom parts (MixoutLinear)"),
        ({"adapters": {"name": "low-rank", "size": 4, "per_task": False}}, "tasks share an adapter"),
    ],
)
def test_the_reason_against_splitting_is_logged(
    find: Find, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], reason: str
) -> None:
    with caplog.at_level(logging.INFO, logger="palbert.build.splitting"):
        trunk, _ = find(**changes)
    assert trunk is None
    assert f"each task has its own backward pass: {reason}" in caplog.text


class Plugin(RDrop):
    """An objective of another package."""


def test_an_objective_of_an_installed_package_is_a_custom_one(
    tiny_recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    point = EntryPoint("plugin", f"{__name__}:Plugin", "palbert.objectives")
    monkeypatch.setitem(OBJECTIVES.__dict__, "plugins", {"plugin": point})
    recipe = make_recipe({**tiny_recipe, "objectives": ["plugin"]})
    run = verb.TrainingJob(recipe, RunFolder(tmp_path / "run")).prepare()
    model, objective = run.trainer.model, run.trainer.objective
    assert isinstance(model, MultiTaskModel) and isinstance(objective, Objectives)
    with caplog.at_level(logging.INFO, logger="palbert.build.splitting"):
        assert find_trunk(model, objective, run.machine, tokens=100, tasks=3, processes=1) is None
    assert "a custom objective may use the encoder's weights" in caplog.text
