"""Training on dev: a final run on train and dev together, whose last checkpoint predicts."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import RecipeError, RunFolderError
from palbert.recipe.load import load_recipe, make_recipe
from palbert.reproduction.with_dev import folder_with_dev, has_dev, is_finished, with_dev
from palbert.runtime.checksums import record_folder
from palbert.runtime.run_folder import RunFolder
from palbert.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")


def test_the_folder_lies_next_to_the_run_even_if_that_is_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder_with_dev(RunFolder(Path("runs/mine"))).path == Path("runs/mine-with-dev")
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert folder_with_dev(RunFolder(Path("."))).path == tmp_path / "mine-with-dev"


def test_a_run_is_finished_after_its_last_epoch(run_copy: Path) -> None:
    assert is_finished(RunFolder(run_copy))
    description = run_copy / "checkpoints" / "last" / "palbert.json"
    content = json.loads(description.read_text("utf-8"))
    content["scores"]["epoch"] = 2
    description.unlink()
    description.write_text(json.dumps(content), "utf-8")
    record_folder(description.parent)
    assert not is_finished(RunFolder(run_copy))
    shutil.rmtree(run_copy / "checkpoints")
    assert not is_finished(RunFolder(run_copy))


def test_a_recipe_with_dev_has_the_rows_and_the_epochs() -> None:
    phases = [{"training": {"epochs": 2}}, {"training": {"epochs": 3}}, {"training": {"epochs": 1}}]
    tasks = {"sst": {"drop_overlap": ["dev"]}, "sts": {}}
    recipe = make_recipe({"data": "samples", "tasks": tasks, "training": {"epochs": 9}})
    changed = with_dev(recipe, epochs=4)
    assert changed.training.epochs == 4 and changed.tasks["sst"].drop_overlap == ()
    assert changed.tasks["sst"].train == recipe.tasks["sst"].train + recipe.tasks["sst"].dev
    assert has_dev(changed) and not has_dev(recipe)
    staged = make_recipe({"data": "samples", "tasks": tasks, "phases": phases})
    for epochs, kept in ((1, [1]), (2, [2]), (4, [2, 2]), (6, [2, 3, 1])):
        assert [phase.training.epochs for phase in with_dev(staged, epochs=epochs).phases] == kept


def test_the_final_run_is_trained_on_dev_and_its_last_checkpoint_predicts(
    run_copy: Path, course: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "palbert")
    description = run_copy / "checkpoints" / "best" / "palbert.json"
    described = json.loads(description.read_text("utf-8"))
    described["scores"]["epoch"] = 2
    description.unlink()  # a link to that of `last`
    description.write_text(json.dumps(described), "utf-8")
    record_folder(description.parent)
    done = palbert.submit(run_copy, test=course, with_dev=True)
    trained = run_copy.with_name("copied-run-with-dev")
    assert done.run == trained and (trained / "submission" / "sst-test-output.csv").is_file()
    assert "2 epochs, as many as best took" in caplog.text
    assert "in dev too" not in caplog.text  # the user asked for it
    before, after = load_recipe(run_copy / "recipe.toml"), load_recipe(trained / "recipe.toml")
    assert (before.training.epochs, after.training.epochs) == (3, 2)
    assert "Trained on train and dev together for 2 epochs" in after.description
    report = json.loads((trained / "report.json").read_text("utf-8"))
    rows = json.loads((run_copy / "report.json").read_text("utf-8"))["rows"]
    assert {task: each["train"] for task, each in report["rows"].items()} == {
        task: each["train"] + each["dev"] for task, each in rows.items()
    }
    assert "sst: trained on its dev rows, so the score says nothing about other rows." in report["notes"]
    shutil.rmtree(trained / "checkpoints" / "best")
    palbert.submit(trained, test=course, force=True)  # the last checkpoint is the default of such a run
    with pytest.raises(RecipeError, match="has been trained on dev already"):
        palbert.submit(trained, test=course, with_dev=True, force=True)
    with pytest.raises(RunFolderError, match="already exists"):
        palbert.submit(run_copy, test=course, with_dev=True)
    with pytest.raises(RunFolderError, match="trained on train and dev already") as refused:
        palbert.submit(run_copy, test=course, with_dev=True, out=run_copy.with_name("elsewhere"))
    assert f"palbert submit {trained}" in (refused.value.hint or "")


def test_an_interrupted_final_run_is_not_handed_in_and_continues(
    run_copy: Path, course: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "palbert")
    step_of = Trainer.step

    def stop(self: Trainer, *arguments: Any) -> Any:
        self.stopping = True
        return step_of(self, *arguments)

    trained = run_copy.with_name("copied-run-with-dev")
    with monkeypatch.context() as patch, pytest.raises(palbert.StoppedError) as caught:
        patch.setattr(Trainer, "step", stop)
        palbert.submit(run_copy, test=course, with_dev=True)
    assert (caught.value.folder, caught.value.verb) == (trained, "submit")
    palbert.evaluate(trained)  # a report does not make it finished
    with pytest.raises(RunFolderError, match="is not finished"):
        palbert.submit(trained, test=course)
    assert not (trained / "submission").exists()
    done = palbert.submit(run_copy, test=course, with_dev=True)
    assert done.run == trained and "resuming at step 1 of" in caplog.text
