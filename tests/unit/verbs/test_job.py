"""Runs: constructors store, prepare() touches nothing, and fit() starts or restores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError, RunFolderError
from palbert.recipe.load import load_recipe, make_recipe
from palbert.recipe.schema import Recipe
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint_hooks import Checkpoints
from palbert.training.hooks import MetricsLog, read_records
from palbert.training.limits import TimeLimit
from palbert.training.number_checks import CheckNumbers
from palbert.training.trainer import Trainer
from palbert.verbs.job import Job
from palbert.verbs.pretrain import PretrainingJob
from palbert.verbs.train import TrainingJob, train

KINDS = pytest.mark.parametrize("kind", [TrainingJob, PretrainingJob])


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    return {**tiny_recipe, "pretraining": {"steps_per_epoch": 3, "batch_size": 4}}


def recipe_for(kind: type[Job], values: dict[str, Any]) -> Recipe:
    """Make a recipe with one trainer: pretraining before the tasks would add another."""
    return make_recipe(values if kind is PretrainingJob else {**values, "pretraining": None})


@KINDS
def test_constructing_a_run_loads_nothing(kind: type[Job], values: dict[str, Any], tmp_path: Path) -> None:
    values["encoder"]["name"] = "nowhere"
    run = kind(recipe_for(kind, values), RunFolder(tmp_path / "run"))
    assert not hasattr(run, "model") and not hasattr(run, "trainer")


@KINDS
def test_preparing_builds_a_trainer_and_writes_no_file(kind: type[Job], values: dict[str, Any], tmp_path: Path) -> None:
    run = kind(recipe_for(kind, values), RunFolder(tmp_path / "run"))
    assert run.prepare() is run
    assert run.trainer.position.step == 0 and run.recipe.provenance is not None
    assert not run.folder.path.exists()


@KINDS
def test_a_prepared_run_that_cannot_open_its_folder_changes_no_file(
    kind: type[Job], values: dict[str, Any], tmp_path: Path, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    stopped(kind(recipe_for(kind, values), RunFolder(tmp_path / "run")))
    before = snapshot(tmp_path / "run")
    with pytest.raises(RecipeError, match="cannot resume with other settings"):
        kind(recipe_for(kind, {**values, "seed": 5}), RunFolder(tmp_path / "run"), resume=True).prepare().fit()
    assert snapshot(tmp_path / "run") == before


def stopped(run: Job, *, at: int = 2) -> None:
    """Stop a run after some steps, as Ctrl-C does."""
    trainer = run.prepare().trainer
    step = trainer.step

    def counted(batches: Any) -> Any:
        trainer.stopping = trainer.position.step + 1 == at
        return step(batches)

    trainer.step = counted  # type: ignore[method-assign]
    assert not run.fit()


@KINDS
def test_a_stopped_run_is_restored_to_the_step_it_stopped_at(
    kind: type[Job], values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(kind(recipe_for(kind, values), RunFolder(tmp_path / "run")))
    resumed = kind(recipe_for(kind, values), RunFolder(tmp_path / "run"), resume=True).prepare()
    seen: list[int] = []

    def look(trainer: Trainer) -> bool:
        seen.append(trainer.position.step)
        return False

    monkeypatch.setattr(Trainer, "fit", look)
    assert not resumed.fit()
    assert resumed.has_checkpoint and seen == [2]
    assert resumed.trainer.optimizer.state


@KINDS
def test_resuming_before_the_first_checkpoint_starts_again(
    kind: type[Job], values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", lambda trainer: False)
        kind(recipe_for(kind, values), folder).prepare().fit()
    again = kind(recipe_for(kind, values), folder, resume=True).prepare()
    assert not again.has_checkpoint and again.fit()


@KINDS
def test_a_new_run_is_scored_before_training_and_a_resumed_one_is_not_scored_again(
    kind: type[Job], values: dict[str, Any], tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    stopped(kind(recipe_for(kind, values), folder))
    kind(recipe_for(kind, values), folder, resume=True).prepare().fit()
    scored = [record["epoch"] for record in read_records(folder.metrics) if record["kind"] == "evaluation"]
    assert scored == sorted(set(scored)) and scored[0] == 0


def test_phases_share_one_position(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    training = {"epochs": 1, "steps_per_epoch": 2}
    tiny_recipe["phases"] = [{"name": "heads", "training": {**training, "trains": ["heads"]}}, {"training": training}]
    run = TrainingJob(make_recipe(tiny_recipe), RunFolder(tmp_path / "run")).prepare()
    assert run.phases == [range(1, 2), range(2, 3)]
    assert [run.phase_name(phase) for phase in (0, 1)] == ["heads", ""]
    first = run.trainer
    assert run.fit()
    assert run.trainer is not first and run.trainer.position.step == 4


def test_the_recipe_in_the_folder_is_the_resolved_one(values: dict[str, Any], tmp_path: Path) -> None:
    run = PretrainingJob(make_recipe({**values, "pretraining": None}), RunFolder(tmp_path / "run")).prepare()
    assert run.open_folder() is None
    written = load_recipe(run.folder.recipe)
    assert written.pretraining == run.section and written.provenance == run.recipe.provenance


def test_hooks_log_and_save_the_description_of_the_run(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    run = TrainingJob(make_recipe(tiny_recipe), RunFolder(tmp_path / "run")).prepare()
    run.folder.path.mkdir()
    limit, metrics, numbers, checkpoints, *_ = run.make_hooks({"best": 0.5})
    assert isinstance(limit, TimeLimit)  # before the checkpoint that holds the time
    assert isinstance(metrics, MetricsLog) and isinstance(checkpoints, Checkpoints)
    assert checkpoints.logs == run.folder.logs  # which are flushed before each checkpoint
    assert isinstance(numbers, CheckNumbers)  # before a checkpoint is saved that holds them
    assert checkpoints.metrics == {"sst": "accuracy", "quora": "accuracy", "sts": "pearson"}
    assert checkpoints.best == {"best": 0.5} and checkpoints.description == run.describe()


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_another_process_has_trained_meanwhile_is_kept(
    resume: bool,
    values: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: Callable[[Path], dict[str, bytes]],
) -> None:
    recipe, run, prepare = make_recipe(values), RunFolder(tmp_path / "run"), TrainingJob.prepare
    run.claim()  # as a run killed at its start leaves it
    found: dict[str, bytes] = {}

    def prepare_slowly(job: TrainingJob) -> TrainingJob:
        prepared = prepare(job)
        monkeypatch.setattr(TrainingJob, "prepare", prepare)
        train(recipe, out=run.path, resume=resume)
        found.update(snapshot(run.path))
        return prepared

    monkeypatch.setattr(TrainingJob, "prepare", prepare_slowly)
    message = "another process has trained here" if resume else "already holds a run"
    with pytest.raises(RunFolderError, match=rf"{run.path}: {message}.*--resume"):
        train(recipe, out=run.path, resume=resume)
    assert found and snapshot(run.path) == found
