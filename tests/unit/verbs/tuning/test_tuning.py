"""Tuning: a search from the first trial to the confirmation, killed and continued, with failures and limits."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tuned import SPACE

import palbert
from palbert.errors import StoppedError, TrainingError
from palbert.runtime.children import python_command
from palbert.verbs.tuning import trials as trials_module
from palbert.verbs.tuning import tuning as module
from palbert.verbs.tuning.runners import run_all
from palbert.verbs.tuning.search import Search

pytestmark = pytest.mark.usefixtures("no_plots")

Facts = list[tuple[Any, ...]]


def facts(folder: Path) -> Facts:
    """Return what has to be the same in searches that are the same."""
    found = json.loads((folder / "tune.json").read_text("utf-8"))["trials"]
    return [
        (each["number"], each["state"], each["parameters"], [round(score, 5) for score in each["evaluations"]])
        for each in found
    ]


def search(values: dict[str, Any], out: Path, **settings: Any) -> palbert.Tuned:
    return palbert.tune(values, **{"space": SPACE, "trials": 3, "confirm": 0, "out": out, **settings})


def test_the_same_seed_gives_the_same_trials_and_the_first_is_the_recipe(
    values: dict[str, Any], tmp_path: Path
) -> None:
    found = search(values, tmp_path / "one")
    search(values, tmp_path / "two")
    assert facts(tmp_path / "one") == facts(tmp_path / "two")
    first = found.summary["trials"][0]
    assert first["parameters"] == {"optimizer.learning_rate": 1e-3, "training.epochs": 2, "training.batch_size": 4}
    runs = [palbert.Run(tmp_path / "one" / each["run"]) for each in found.summary["trials"]]
    assert [run.report["overall"] for run in runs] == [each["score"] for each in found.summary["trials"]]
    for run, each in zip(runs, found.summary["trials"], strict=True):
        assert run.recipe.training.epochs == each["parameters"]["training.epochs"] == len(each["evaluations"])
        assert run.recipe.optimizer.learning_rate == each["parameters"]["optimizer.learning_rate"]
        assert run.recipe.seed == 1
    assert len(palbert.compare(runs)) == 2
    again = palbert.train(found.recipe, out=tmp_path / "again")
    assert again.report["overall"] == found.score == max(each["score"] for each in found.summary["trials"])


@pytest.mark.parametrize("seconds", [0.1, 1.3])
def test_a_search_that_is_killed_at_any_moment_is_continued_as_if_it_had_not_been(
    seconds: float, values: dict[str, Any], tmp_path: Path
) -> None:
    search(values, tmp_path / "whole", trials=4)
    code = (
        f"import palbert\npalbert.tune({values!r}, space={SPACE!r}, trials=4, confirm=0, out={str(tmp_path / 'k')!r})"
    )
    journal = tmp_path / "k" / "journal.log"
    child = subprocess.Popen(python_command(code), stderr=subprocess.DEVNULL)
    while child.poll() is None and not (journal.is_file() and journal.stat().st_size):
        time.sleep(0.02)
    time.sleep(seconds)
    child.kill()
    child.wait()
    with journal.open("ab") as stream:
        stream.write(b'{"op_code":7,"worker')
    former = [path.stat().st_mtime_ns for path in sorted((tmp_path / "k" / "trials").glob("*/report.json"))]
    search(values, tmp_path / "k", trials=4, resume=True)
    assert facts(tmp_path / "k") == facts(tmp_path / "whole")
    later = [path.stat().st_mtime_ns for path in sorted((tmp_path / "k" / "trials").glob("*/report.json"))]
    assert len(later) == 4 and later[: max(len(former) - 1, 0)] == former[:-1]  # not trained again


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize(("place", "after"), [("ask", True), ("prune", False), ("tell", False), ("tell", True)])
def test_a_search_that_ends_around_its_journal_is_continued(
    place: str, after: bool, values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(values, tmp_path / "whole", trials=2)
    real, calls = getattr(Search, place), []

    def fail(self: Any, *given: Any, **settings: Any) -> Any:
        calls.append(1)
        if len(calls) == 2 and not after:
            raise Killed
        found = real(self, *given, **settings)
        if len(calls) == 2:
            raise Killed
        return found

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Search, place, fail)
        search(values, tmp_path / "k", trials=2)
    search(values, tmp_path / "k", trials=2, resume=True)
    assert facts(tmp_path / "k") == facts(tmp_path / "whole")


def test_a_stop_says_so_and_the_search_goes_on_from_there(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(values, tmp_path / "whole", trials=2)
    real, trained = run_all, []

    def stop_in_the_second(*given: Any, **settings: Any) -> Any:
        for found in real(*given, **settings):
            yield found
            trained.append(1)
            if len(trained) == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_all", stop_in_the_second)
    with pytest.raises(StoppedError) as caught:
        search(values, tmp_path / "k", trials=2)
    assert (caught.value.folder, caught.value.verb) == (tmp_path / "k", "tune")
    assert (tmp_path / "k" / "report.html").is_file()
    search(values, tmp_path / "k", trials=2, resume=True)
    assert facts(tmp_path / "k") == facts(tmp_path / "whole") and len(trained) == 2


def fail_in(numbers: set[str], real: Callable[..., Any]) -> Callable[..., Any]:
    def train(recipe: Any, *, out: Path, **settings: Any) -> Any:
        if out.name in numbers:
            raise TrainingError("The loss of own is nan.")
        return real(recipe, out=out, **settings)

    return train


def test_a_failed_trial_does_not_end_the_search_and_is_not_trained_again(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.train.train", fail_in({"0001"}, palbert.train))
    found = search(values, tmp_path / "out", trials=3)
    assert [trial["state"] for trial in found.summary["trials"]] == ["complete", "failed", "complete"]
    assert found.summary["trials"][1]["reason"] == "The loss of own is nan."
    assert "1 trial failed (1): The loss of own is nan." in found.summary["notes"]
    monkeypatch.undo()
    again = search(values, tmp_path / "out", trials=3, resume=True)
    assert [trial["state"] for trial in again.summary["trials"]] == ["complete", "failed", "complete"]


def test_a_search_of_which_every_trial_fails_says_why(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.train.train", fail_in({"0000", "0001"}, palbert.train))
    with pytest.raises(TrainingError, match="no trial is complete: The loss of own is nan") as caught:
        search(values, tmp_path / "out", trials=2)
    assert caught.value.exit_code == 1 and (tmp_path / "out" / "report.html").is_file()


def test_checkpoints_are_kept_of_the_best_trials_alone(values: dict[str, Any], tmp_path: Path) -> None:
    found = search(values, tmp_path / "out", trials=3, keep=1)
    kept = [path.parent.name for path in (tmp_path / "out" / "trials").glob("*/checkpoints")]
    assert kept == [found.best.path.name]
    search(values, tmp_path / "out", trials=4, keep=None, resume=True)
    kept = [path.parent.name for path in sorted((tmp_path / "out" / "trials").glob("*/checkpoints"))]
    assert sorted({found.best.path.name, "0003"}) == kept


def test_no_trial_starts_that_would_not_end_within_the_limit(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("palbert.verbs.tuning.tuning.time.monotonic", lambda: float(next(clock)))
    found = search(values, tmp_path / "out", trials=100, time="2 min")
    assert 0 < len(found.summary["trials"]) < 8  # every look at the clock takes 10 seconds here
    assert sum(each["seconds"] for each in found.summary["trials"]) < 120


def test_fresh_seeds_show_how_much_was_luck_and_are_trained_once(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = search(values, tmp_path / "out", trials=3, confirm=2)
    confirmation = found.summary["confirmation"]
    assert confirmation["seeds"] == [2, 3]
    runs = {name: [each["overall"] for each in own] for name, own in confirmation["runs"].items()}
    best = next(name for name in runs if name != "recipe")
    assert confirmation["bias"] == pytest.approx(found.score - sum(runs[best]) / 2)
    assert confirmation["difference"]["mean"] == pytest.approx((sum(runs[best]) - sum(runs["recipe"])) / 2)
    folders = sorted(path.name for path in (tmp_path / "out" / "confirm").iterdir() if path.is_dir())
    assert folders == sorted(f"{name.replace(' ', '-')}-seed-{seed}" for name in runs for seed in (2, 3))
    fresh = palbert.Run(tmp_path / "out" / "confirm" / "recipe-seed-3").recipe
    assert fresh.seed == 3 and fresh.optimizer.learning_rate == 1e-3

    def refuse(*given: Any, **settings: Any) -> None:
        raise AssertionError("nothing is left to train")

    monkeypatch.setattr(trials_module, "run_here", refuse)
    monkeypatch.setattr("palbert.verbs.train.train", refuse)
    again = search(values, tmp_path / "out", trials=3, confirm=2, resume=True)
    assert again.summary == found.summary
