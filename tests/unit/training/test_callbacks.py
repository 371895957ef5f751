"""Callbacks: they see a run, may finish it, and an error names the callback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import palbert
from palbert.errors import TrainingError
from palbert.extend import Callback, Evaluation, Trainer
from palbert.recipe.schema import Recipe
from palbert.training.callbacks import check_callbacks
from palbert.training.hooks import read_records
from palbert.verbs import train as verb

MakeRecipe = Callable[..., Recipe]


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the final report."""
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)


class Scores(Callback):
    """Collect scores, and finish when they are good enough."""

    def __init__(self, *, enough: int = 99) -> None:
        self.enough = enough
        self.seen: list[tuple[float, float]] = []
        self.losses: list[dict[str, float]] = []

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        self.losses.append({name: float(loss) for name, loss in losses.items()})

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self.seen.append((evaluation.epoch, evaluation.tasks["sst"]["accuracy"]))
        if len(self.seen) == self.enough:
            trainer.finish("good enough.")


def test_callbacks_see_losses_and_scores_and_may_finish_the_run(recipe: MakeRecipe, tmp_path: Path) -> None:
    scores = Scores(enough=2)
    palbert.train(recipe(training={"evaluate_every": 4}), out=tmp_path / "run", callbacks=[scores, Scores()])
    assert [epoch for epoch, _ in scores.seen] == [pytest.approx(4 / 6), 1]
    assert len(scores.losses) == 6
    last = read_records(tmp_path / "run" / "metrics.jsonl")[-1]
    assert (last["kind"], last["step"], last["reason"]) == ("end", 6, "good enough.")


class Broken(Callback):
    """Fail in one method."""

    def __init__(self, method: str) -> None:
        setattr(self, method, self.fail)

    def fail(self, *arguments: Any) -> None:
        raise KeyError("loss")


@pytest.mark.parametrize("method", ["on_start", "on_step", "on_evaluation", "on_end"])
def test_an_error_names_the_callback_and_its_method(recipe: MakeRecipe, tmp_path: Path, method: str) -> None:
    with pytest.raises(TrainingError, match=rf"callback Broken failed in {method}, at step \d+: KeyError: 'loss'"):
        palbert.train(recipe(), out=tmp_path / "run", callbacks=[Broken(method)])


@pytest.mark.parametrize("wrong", [Scores, print, "Scores"])
def test_anything_but_an_instance_is_refused_before_anything_is_loaded(
    recipe: MakeRecipe, tmp_path: Path, wrong: Any
) -> None:
    with pytest.raises(TypeError, match=r"expected a list of instances of palbert\.extend\.Callback, found"):
        palbert.train(recipe(), out=tmp_path / "run", callbacks=[wrong])
    assert not (tmp_path / "run").exists()


def test_a_callback_outside_a_list_is_refused() -> None:
    for given in (Callback(), Callback):
        with pytest.raises(TypeError, match="expected a list of instances"):
            check_callbacks(given)  # type: ignore[arg-type]
