"""Cross-validation: every row is dev once, a stop continues, and the mean has an interval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import RecipeError, RunFolderError, StoppedError
from palbert.reporting.predictions import read_predictions
from palbert.runtime.distributed import Ranks
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.held_out import HeldOut
from palbert.verbs import cross_validate as module

ROWS = [{"text": f"the film number {number}", "label": "good" if number % 2 else "bad"} for number in range(24)]


@pytest.fixture
def values(tmp_path: Path, tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe of one task without dev rows that is trained for one step."""
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    training = {"epochs": 1, "steps_per_epoch": 1, "batch_size": 4}
    own = {"tasks": {"own": {"train": str(tmp_path / "own.jsonl")}}, "training": training}
    return {key: value for key, value in {**tiny_recipe, **own}.items() if key != "data"}


def test_every_row_is_scored_once_and_the_mean_is_reported(values: dict[str, Any], tmp_path: Path) -> None:
    found = palbert.cross_validate(values, folds=3, out=tmp_path / "runs")
    runs = [tmp_path / "runs" / f"fold-{fold}" for fold in (1, 2, 3)]
    target = palbert.Run(runs[0]).recipe.tasks["own"].target
    ids = [read_predictions(run / "predictions" / "own-dev.csv", target=target).ids for run in runs]
    assert sorted(int(row) for each in ids for row in each) == list(range(24))
    scores = [palbert.Run(run).scores["own"]["accuracy"] for run in runs]
    summary = json.loads((tmp_path / "runs" / "folds.json").read_text())
    assert summary == found.summary and summary["tasks"]["own"]["values"] == scores
    assert summary["tasks"]["own"]["mean"] == pytest.approx(sum(scores) / 3)
    assert summary["tasks"]["own"]["low"] <= summary["tasks"]["own"]["mean"] <= summary["tasks"]["own"]["high"]
    assert "95 % interval" in repr(found) and "<table>" in found._repr_html_()
    assert palbert.Run(runs[1]).recipe.tasks["own"].held_out == HeldOut(fold=2, folds=3)


def test_a_stop_continues_with_the_first_fold_that_is_not_finished(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, trained = palbert.train, []

    def stop_in_the_second(recipe: Any, *, out: Path, **settings: Any) -> Any:
        trained.append(out.name)
        if len(trained) == 2:
            raise StoppedError(out, verb="train")
        return real(recipe, out=out, **settings)

    monkeypatch.setattr(module, "train", stop_in_the_second)
    with pytest.raises(StoppedError) as caught:
        palbert.cross_validate(values, folds=3, out=tmp_path / "runs")
    assert caught.value.folder == tmp_path / "runs" and module.folds_in(tmp_path / "runs") == 3
    with pytest.raises(RunFolderError, match="already holds a run"):
        palbert.cross_validate(values, folds=3, out=tmp_path / "runs")
    with pytest.raises(RunFolderError, match="has 3 folds, not 4"):
        palbert.cross_validate(values, folds=4, out=tmp_path / "runs", resume=True)
    with pytest.raises(RecipeError, match="other settings"):
        palbert.cross_validate({**values, "seed": 9}, folds=3, out=tmp_path / "runs", resume=True)
    found = palbert.cross_validate(values, folds=3, out=tmp_path / "runs", resume=True)
    assert trained == ["fold-1", "fold-2", "fold-2", "fold-3"] and len(found.summary["tasks"]["own"]["values"]) == 3


def test_a_process_that_is_late_takes_part_though_the_first_has_opened_the_folder(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ReachedError(Exception):
        """The process has come as far as training."""

    def reach(*given: Any, **settings: Any) -> None:
        raise ReachedError

    monkeypatch.setattr(module, "train", reach)
    for rank in (0, 1):
        monkeypatch.setattr(module, "find_ranks", lambda rank=rank: Ranks(rank, 2))
        with pytest.raises(ReachedError):
            palbert.cross_validate(values, folds=3, out=tmp_path / "runs")


def test_tasks_with_dev_rows_of_their_own_are_refused(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"tasks.sst.dev: folds are parts of the training rows"):
        palbert.cross_validate(tiny_recipe, folds=3, out=tmp_path / "runs")
    with pytest.raises(RecipeError, match="two or more folds"):
        palbert.cross_validate(tiny_recipe, folds=1, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_overrides_apply_to_a_checked_recipe_too(values: dict[str, Any], tmp_path: Path) -> None:
    palbert.cross_validate(palbert.make_recipe(values), folds=2, out=tmp_path / "runs", overrides=["seed=7"])
    assert palbert.Run(tmp_path / "runs" / "fold-2").recipe.seed == 7


def test_a_run_that_replaces_folds_removes_their_scores(values: dict[str, Any], tmp_path: Path) -> None:
    palbert.cross_validate(values, folds=2, out=tmp_path / "runs")
    palbert.train(values, out=tmp_path / "runs", force=True)
    assert module.folds_in(tmp_path / "runs") is None


def test_folds_are_all_replaced_or_none(values: dict[str, Any], tmp_path: Path) -> None:
    folds = [RunFolder(tmp_path / f"fold-{number}") for number in (1, 2)]
    for folder in (RunFolder(tmp_path), *folds):
        folder.claim()
        folder.predictions.mkdir()
        folder.metrics.touch()
    (folds[1].predictions / "mine.txt").touch()
    with pytest.raises(RunFolderError, match=r"fold-2/predictions/mine\.txt: was not written by palbert"):
        palbert.cross_validate(values, folds=2, out=tmp_path, force=True)
    assert all(folder.metrics.is_file() for folder in (RunFolder(tmp_path), *folds))


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"folds": "3", "results": {}}'])
def test_a_damaged_record_of_folds_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "folds.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"folds\.json: .*--force"):
        module.folds_in(tmp_path)


def test_folds_are_compared_with_baselines(values: dict[str, Any], tmp_path: Path) -> None:
    found = palbert.cross_validate(values, folds=2, out=tmp_path / "runs")
    reports = [palbert.Run(tmp_path / "runs" / f"fold-{fold}").report for fold in (1, 2)]
    expected = sum(report["baselines"]["linear probe"]["own"] for report in reports) / 2
    assert found.summary["baselines"]["linear probe"]["own"] == pytest.approx(expected)
    assert "linear probe" in repr(found)
    worse = found.summary["tasks"]["own"]["mean"] < expected
    assert any("worse than the baseline" in note for note in found.summary["notes"]) or not worse


def test_changed_rows_are_refused_when_folds_continue(values: dict[str, Any], tmp_path: Path) -> None:
    palbert.cross_validate(values, folds=2, out=tmp_path / "runs")
    with (tmp_path / "own.jsonl").open("a") as stream:
        stream.write(json.dumps({"text": "another film", "label": "good"}) + "\n")
    with pytest.raises(RunFolderError, match=r"own\.jsonl has changed since fold 1 was trained"):
        palbert.cross_validate(values, folds=2, out=tmp_path / "runs", resume=True)
