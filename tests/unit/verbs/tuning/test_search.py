"""Search: the journal survives a kill, parameters follow from the seed, and bad trials are pruned."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.recipe.space import load_space
from palbert.verbs.tuning.search import FEWEST_FINISHED, Search, Trial, drop_half_line

SPACE = load_space(
    {
        "a": {"low": 1e-5, "high": 1e-3, "log": True},
        "b": [1, {"name": "x", "k": 2}, "q"],
        "c": {"low": 1, "high": 9, "step": 2},
    }
)


def score_of(trial: Trial) -> float:
    return float(trial.parameters["c"]) + 100 * float(trial.parameters["a"])


def finish(search: Search, trial: Trial) -> None:
    for step in (1, 2):
        if search.prune(trial.number, step, step * score_of(trial)):
            return search.tell(trial.number, "pruned", {"overall": score_of(trial)})
    return search.tell(trial.number, "complete", {"overall": score_of(trial)})


def go(journal: Path, trials: int, *, seed: int = 3) -> Search:
    """Run a search up to a number of trials, from where it was stopped."""
    search = Search(journal, SPACE, seed=seed)
    for trial in search.trials:
        if trial.state == "running":
            finish(search, trial)
    while len(search.trials) < trials:
        asked = search.ask({"b": "q"})
        assert asked is not None
        finish(search, asked)
    return search


def test_the_first_trial_has_the_given_parameters_and_draws_the_others(tmp_path: Path) -> None:
    first = Search(tmp_path / "journal.log", SPACE, seed=0).ask({"b": "q", "c": 5})
    assert first is not None and first.number == 0
    assert first.parameters["b"] == "q" and first.parameters["c"] == 5 and 1e-5 <= first.parameters["a"] <= 1e-3


def test_a_search_that_was_killed_after_any_line_of_its_journal_becomes_the_same(tmp_path: Path) -> None:
    whole = go(tmp_path / "whole.log", 12).trials
    lines = (tmp_path / "whole.log").read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines), 7):
        journal = tmp_path / f"{count}.log"
        journal.write_bytes(b"".join(lines[:count]) + lines[count][: len(lines[count]) // 2])
        assert go(journal, 12).trials == whole


def test_another_seed_draws_other_parameters(tmp_path: Path) -> None:
    one, two = (go(tmp_path / f"{seed}.log", 3, seed=seed).trials for seed in (3, 4))
    assert [trial.parameters for trial in one] != [trial.parameters for trial in two]


def test_a_half_line_is_cut_off_and_whole_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "journal.log"
    drop_half_line(path)
    assert not path.exists()
    for content, kept in ((b"one\ntwo\n", b"one\ntwo\n"), (b"one\ntw", b"one\n"), (b"on", b""), (b"", b"")):
        path.write_bytes(content)
        drop_half_line(path)
        assert path.read_bytes() == kept


def test_a_journal_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.log").write_text("[]\nhello\n\n")
    with pytest.raises(RunFolderError, match=r"journal\.log: damaged: "):
        Search(tmp_path / "journal.log", SPACE, seed=0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"result":{"overall":0.5', '"result":{"overal":0.5'),
        ('"result":{"overall":0.5', '"result":{"overall":"x"'),
        ('"result":{"overall":0.5', '"result":{"overall":NaN'),
        ('"tasks":{}', '"tasks":[3]'),
        ('"intermediate_value":0.5', '"intermediate_value":' + "1" * 400),
        ('"values":[0.5]', '"values":null'),
        ('"params":{"a":', '"params":{"a":1e9'),
    ],
)
def test_a_damaged_trial_is_refused(old: str, new: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal.log"
    search = Search(journal, SPACE, seed=0)
    assert search.ask({}) is not None
    search.prune(0, 1, 0.5)
    search.tell(0, "complete", {"overall": 0.5, "tasks": {}})
    text = journal.read_text("utf-8")
    assert old in text
    journal.write_text(text.replace(old, new))
    with pytest.raises(RunFolderError, match=r"journal\.log: damaged: ") as caught:
        Search(journal, SPACE, seed=0)
    assert "--force" in (caught.value.hint or "")


def test_trials_below_the_median_are_pruned_once_enough_are_complete(tmp_path: Path) -> None:
    search = Search(tmp_path / "journal.log", SPACE, seed=0)
    for number in range(FEWEST_FINISHED):
        assert search.ask({}) is not None
        assert not any(search.prune(number, step, 0.5) for step in (1, 2, 3))
        search.tell(number, "complete", {"overall": 0.5})
    assert search.ask({}) and search.ask({})
    assert not search.prune(5, 1, 0.1)  # after one evaluation it is too early
    assert search.prune(5, 2, 0.2)
    assert search.prune(5, 2, 0.9)  # a score that is known stays
    assert not search.prune(6, 1, 0.6)
    assert not search.prune(6, 2, 0.4)  # its best score counts
    search.tell(5, "pruned", {"overall": 0.2})
    assert [trial.state for trial in search.trials[5:]] == ["pruned", "running"]
    assert search.trials[5].evaluations == {1: 0.1, 2: 0.2} and search.trials[5].result == {"overall": 0.2}


def test_no_combination_is_tried_twice_and_the_search_ends_with_the_last(tmp_path: Path) -> None:
    space = load_space({"b": [1, 2, 3], "c": {"low": 1, "high": 2}})
    search = Search(tmp_path / "journal.log", space, seed=0)
    while (trial := search.ask({})) is not None:
        search.tell(trial.number, "complete", {"overall": 0.0})
    tried = {tuple(sorted(trial.parameters.items())) for trial in search.trials}
    assert len(search.trials) == len(tried) == 6


def test_the_setting_that_decides_the_score_is_the_most_important(tmp_path: Path) -> None:
    space = load_space({"good": {"low": 0.0, "high": 1.0}, "no matter": {"low": 0.0, "high": 1.0}})
    search = Search(tmp_path / "journal.log", space, seed=0)
    for _ in range(9):
        trial = search.ask({})
        assert trial is not None
        search.tell(trial.number, "complete", {"overall": trial.parameters["good"]})
    assert search.importances() == {}
    for _ in range(6):
        trial = search.ask({})
        assert trial is not None
        search.tell(trial.number, "complete", {"overall": trial.parameters["good"]})
    found = search.importances()
    assert found["good"] > 0.5 and sum(found.values()) == pytest.approx(1.0)


def test_failed_trials_have_a_reason_and_no_score(tmp_path: Path) -> None:
    search = Search(tmp_path / "journal.log", SPACE, seed=0)
    assert search.ask({})
    search.tell(0, "failed", {"reason": "out of memory"})
    again = Search(tmp_path / "journal.log", SPACE, seed=0).trials[0]
    assert again.state == "failed" and again.result == {"reason": "out of memory"}
