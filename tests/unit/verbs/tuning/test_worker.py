"""Worker: a child process trains, is told to end a run, dies, stops and is started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import StoppedError
from palbert.verbs.tuning.trials import Job
from palbert.verbs.tuning.worker import Worker


@pytest.fixture
def recipe(values: dict[str, Any]) -> Any:
    return palbert.make_recipe({**values, "training": {**values["training"], "epochs": 3}})


def test_a_child_lives_from_run_to_run_and_what_happens_to_it_happens_to_one_run(recipe: Any, tmp_path: Path) -> None:
    worker = Worker({"OMP_NUM_THREADS": "1"}, trust=False)
    told: list[int] = []

    def act(number: int, score: float) -> bool:
        told.append(number)
        assert worker.process is not None
        if len(told) == 4:
            os.kill(worker.process.pid, signal.SIGKILL)
        if len(told) == 5:
            worker.stop()
        return len(told) == 2

    try:
        ended = worker.run(Job("trial 0", recipe, tmp_path / "0000", 0), act)
        assert ended.state == "pruned" and told == [1, 2] and 0 < ended.report["epoch"] <= 2
        first = worker.process
        told.append(0)
        died = worker.run(Job("trial 1", recipe, tmp_path / "0001", 1), act)
        assert died.state == "failed" and died.reason.startswith("its process ended with signal 9 (log: ")
        with pytest.raises(StoppedError):
            worker.run(Job("trial 2", recipe, tmp_path / "0002", 2), act)
        assert worker.process is not first
        told.extend([0] * 10)
        assert worker.run(Job("trial 2", recipe, tmp_path / "0002", 2), act).state == "complete"
        assert told[-2:] == [2, 3]  # it went on, and all evaluations were handed on
    finally:
        worker.close()
    assert palbert.Run(tmp_path / "0002").report["overall"]


def test_a_recipe_that_cannot_be_read_any_more_is_a_failure(recipe: Any, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").unlink()
    worker = Worker({"OMP_NUM_THREADS": "1"}, trust=False)
    try:
        outcome = worker.run(Job("trial 0", recipe, tmp_path / "0000", 0), lambda number, score: False)
    finally:
        worker.close()
    assert outcome.state == "failed" and "own.jsonl" in outcome.reason
    assert worker.process is None
