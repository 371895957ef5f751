"""Jobs: rows that share a run are one run, finished ones are not planned again, and other settings are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RunFolderError
from palbert.recipe.load import load_recipe
from palbert.reproduction.jobs import Job, plan_table, refuse_other_settings, skip_finished
from palbert.reproduction.tables import load_tables

MakeResult = Callable[..., dict[str, Any]]


def plan(*tables: str, out: Path, seeds: int = 1, failures: dict[str, str] | None = None, **settings: Any) -> list[Job]:
    noted = {} if failures is None else failures
    plans = [
        plan_table(table, out, seeds=range(seeds), settings=settings, failures=noted) for table in load_tables(tables)
    ]
    return [job for jobs in plans for job in jobs]


def test_rows_with_equal_recipes_share_a_run(folder: Path) -> None:
    remaining = skip_finished(plan("mine/one", "mine/two", out=folder / "out", seeds=2), folder / "out")
    names = [[job.name for job in same] for same in remaining.values()]
    assert ["mine/one:plain, seed 1", "mine/two:same, seed 1"] in names and len(names) == 4


def test_a_finished_run_is_written_under_the_name_of_every_row_that_shares_it(
    folder: Path, make_result: MakeResult
) -> None:
    out = folder / "out"
    jobs = plan("mine/one", "mine/two", out=out)
    jobs[0].write_result(make_result(fingerprint=jobs[0].key[0]))
    remaining = skip_finished(jobs, out)
    assert [job.row for same in remaining.values() for job in same] == ["frozen"]
    one, two = (
        json.loads((out / place / "seed-0.json").read_text("utf-8")) for place in ("mine/one/plain", "mine/two/same")
    )
    own = {"table": "mine/two", "row": "same", "label": "the same", "reported": {"sts": 0.7}}
    assert two == {**one, **own}  # fmt: skip


def test_rows_that_cannot_be_run_are_recorded_as_failures(folder: Path) -> None:
    failures: dict[str, str] = {}
    assert plan("mine/one", out=folder, seeds=2, failures=failures, data="nowhere") == []
    assert list(failures) == [f"mine/one:{row}, seed {seed}" for seed in (0, 1) for row in ("plain", "frozen")]
    assert all("no such file" in message for message in failures.values())


def test_results_of_other_settings_are_all_named(folder: Path, make_result: MakeResult) -> None:
    jobs = plan("mine/one", out=folder / "out")
    refuse_other_settings(jobs)
    for job in jobs:
        job.write_result(make_result(fingerprint="other", encoder={"name": "bge-large", "sha256": "1" * 64}))
    with pytest.raises(RunFolderError) as caught:
        refuse_other_settings(jobs)
    assert caught.value.message.count("made with another encoder, bge-large") == 2


def test_the_written_recipe_trains_the_row_alone(folder: Path) -> None:
    job = plan("mine/one:frozen", out=folder / "out", seeds=2)[1]
    path = job.write_recipe()
    assert (path.name, job.run.name, job.log.name) == ("seed-1.toml", "seed-1", "seed-1.log")
    assert load_recipe(path) == job.recipe and job.recipe.encoder.frozen and job.recipe.seed == 1
