"""Reproduce: every row of a table of results, with several seeds, beside what was reported."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from palbert.errors import PalbertError, RecipeError, RunFolderError, StoppedError, TrainingError
from palbert.recipe.load import dump_recipe
from palbert.recipe.schema import Recipe
from palbert.reporting.wording import plural
from palbert.reproduction.fingerprint import difference, fingerprint
from palbert.reproduction.row_result import row_result
from palbert.reproduction.table import Result, markdown, summarise
from palbert.reproduction.tables import Table, load_tables
from palbert.runtime.files import write_text
from palbert.runtime.progress import bar
from palbert.runtime.run_folder import RunFolder
from palbert.verbs.train import train

log = logging.getLogger(__name__)

Key = tuple[str, int]
"""Fingerprint and seed: jobs that share both are one run."""


@dataclass(frozen=True)
class Job:
    """One row with one seed."""

    table: Table
    row: str
    recipe: Recipe
    folder: Path
    """Where the row's results and runs lie."""
    key: Key

    @property
    def name(self) -> str:
        """Table, row and seed, as a user reads them."""
        return f"{self.table.name}:{self.row}, seed {self.recipe.seed}"

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / f"seed-{self.recipe.seed}"

    @property
    def result(self) -> Path:
        """What is kept of the run; a row is finished when this is there."""
        return self.folder / f"seed-{self.recipe.seed}.json"


@dataclass
class Reproduction:
    """What came of it."""

    tables: list[Path] = field(default_factory=list)
    """The tables, as Markdown; each has a JSON file beside it."""
    failures: dict[str, str] = field(default_factory=dict)
    """What went wrong, by row and seed."""


def reproduce(
    tables: Sequence[str | Path],
    *,
    data: str | Path | None = None,
    encoder: str | Path | None = None,
    seeds: int = 1,
    jobs: int = 1,
    out: str | Path | None = None,
    smoke: bool = False,
    keep_checkpoints: bool = False,
    overrides: Sequence[str] = (),
) -> Reproduction:
    """Train every row of tables with several seeds, and write the tables with reported scores and ours.

    What is finished is not run again, and what was stopped is resumed. A row that fails does not stop the others.

    Args:
        tables: Names such as `sullivan_kumar/table3`, files, or `all`; `sullivan_kumar/table3:1-pals` is one row.
        data: A data folder in place of the tables' own.
        encoder: An encoder in place of the tables' own.
        seeds: How many seeds each row is run with: 0, 1, …
        jobs: How many runs at a time; more than one are child processes, with a log file each, spread over all GPUs.
        out: Where results and runs go; runs/reproduce unless given, or runs/reproduce-smoke.
        smoke: A few steps on the sample data, to see that all rows run.
        keep_checkpoints: Keep the checkpoints of finished runs.
        overrides: Settings as `key=value`, for all rows.

    Raises:
        StoppedError: Ctrl-C; the same call continues.
    """
    if seeds < 1 or jobs < 1:
        raise PalbertError(f"Expected one seed or more and one job or more, found {seeds} and {jobs}.")
    if any(override.replace(" ", "").startswith("seed=") for override in overrides):
        raise RecipeError("A table runs seeds 0, 1, …: 'seed' cannot be set.", hint="Say how many with --seeds.")
    out = Path(out or ("runs/reproduce-smoke" if smoke else "runs/reproduce"))
    loaded = load_tables([tables] if isinstance(tables, str | Path) else tables)
    done = Reproduction()
    planned: list[Job] = []
    settings = {"data": data and str(data), "encoder": encoder and str(encoder), "smoke": smoke, "overrides": overrides}
    for table in loaded:
        planned += _plan(table, out, range(seeds), settings, done)
    planned.sort(key=lambda job: job.recipe.seed)  # every row once before one is run again: a stop leaves some of all
    if not planned:
        raise RecipeError(next(iter(done.failures.values())))
    _refuse_others(planned)
    remaining = _remaining(planned, _finished(out))
    log.info("%s, %d to do", plural(len({job.key for job in planned}), "run"), len(remaining))
    done.tables = [_write_table(table, out) for table in loaded]
    runner = _one_after_the_other if jobs == 1 else _side_by_side(jobs)
    try:
        with bar("runs", total=len(remaining)) as line:
            for first, error in runner([same[0] for same in remaining.values()]):
                if error:
                    log.error("%s: %s", first.name, error)
                for job in remaining[first.key]:
                    if error:
                        done.failures[job.name] = error
                    else:
                        _write_result(job, {**row_result(first.run), "jobs": jobs, "smoke": smoke})
                    _write_table(job.table, out)
                if not error and not keep_checkpoints:
                    shutil.rmtree(RunFolder(first.run).checkpoints, ignore_errors=True)
                line.advance(detail=first.name)
    except KeyboardInterrupt:
        raise StoppedError(out, verb="reproduce") from None
    return done


def _plan(table: Table, out: Path, seeds: range, settings: dict[str, Any], done: Reproduction) -> list[Job]:
    """Return the jobs of a table; rows that cannot be run are noted."""
    jobs = []
    for seed in seeds:
        for row in table.chosen or table.spec.rows:
            try:
                recipe = table.recipe(row, seed=seed, **settings)
                jobs.append(Job(table, row, recipe, out / table.name / row, (fingerprint(recipe), seed)))
            except PalbertError as error:
                done.failures[f"{table.name}:{row}, seed {seed}"] = str(error)
                if seed == seeds.start:
                    log.error("%s:%s cannot be run: %s", table.name, row, error)
    return jobs


def _remaining(planned: Sequence[Job], finished: Mapping[Key, Result]) -> dict[Key, list[Job]]:
    """Return the jobs that are left, by the run that they share; write the results of those whose run is finished."""
    remaining: dict[Key, list[Job]] = {}
    for job in planned:
        if job.key in finished:
            _write_result(job, finished[job.key])
        else:
            remaining.setdefault(job.key, []).append(job)
    return remaining


def _finished(out: Path) -> dict[Key, Result]:
    """Read all results below a folder."""
    results = [read_result(path) for path in sorted(out.glob("*/*/*/seed-*.json"))]
    return {(result["fingerprint"], result["seed"]): result for result in results}


def read_result(path: Path) -> Result:
    """Read the result of a row and seed."""
    try:
        found = json.loads(path.read_text("utf-8"))
        assert {"table", "row", "seed", "fingerprint", "smoke"} <= found.keys()
    except (ValueError, AttributeError, AssertionError):
        raise RunFolderError(
            f"{path}: not the result of a row.", hint="Remove it; palbert reproduce makes it again."
        ) from None
    return found  # type: ignore[no-any-return]


def _refuse_others(jobs: Sequence[Job]) -> None:
    """Refuse to mix results of other settings into a table; of seeds that are not asked for, too."""
    found = []
    for job in {job.folder: job for job in jobs}.values():
        for path in sorted(job.folder.glob("seed-*.json")):
            result = read_result(path)
            if result["fingerprint"] != job.key[0]:
                found.append(f"{path}: made with {difference(job.recipe, result)}.")
    if found:
        raise RunFolderError("\n".join(found), hint="Give another folder with --out, or remove them.")


def _one_after_the_other(jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
    """Run the jobs in this process; yield each with its error, empty if there is none."""
    for job in jobs:
        try:
            _start(job)
            begun = RunFolder(job.run).can_resume
            train(job.recipe, out=job.run, resume=begun, force=not begun)
        except Exception as error:
            yield job, str(error) or type(error).__name__
        else:
            yield job, ""


def _side_by_side(count: int) -> Callable[[Sequence[Job]], Iterator[tuple[Job, str]]]:
    """Return what runs jobs as child processes, several at a time."""

    def run(jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
        pool = ThreadPoolExecutor(count)
        places: SimpleQueue[dict[str, str]] = SimpleQueue()
        # Processes that all take all cores slow each other down, many times over; the user's own word comes first.
        threads = {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // count))}
        for place in islice(cycle(_gpus() or [{}]), count):
            places.put(place)
        try:
            running = {pool.submit(_run_child, job, places, threads): job for job in jobs}
            for future in as_completed(running):
                try:
                    future.result()
                except (PalbertError, OSError) as error:
                    yield running[future], str(error)
                else:
                    yield running[future], ""
        finally:  # a Ctrl-C reaches the children too, and they leave a checkpoint
            pool.shutdown(cancel_futures=True)

    return run


def _gpus() -> list[dict[str, str]]:
    """Return the environment that shows a child one GPU alone, for each of several."""
    count = torch.cuda.device_count()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = shown if len(shown) == count else [str(number) for number in range(count)]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names] if count > 1 else []


def _run_child(job: Job, places: SimpleQueue[dict[str, str]], threads: Mapping[str, str]) -> None:
    recipe = _start(job)
    flag = "--resume" if RunFolder(job.run).can_resume else "--force"
    command = [sys.executable, "-m", "palbert", "train", str(recipe), "--out", str(job.run), flag]
    path = job.folder / f"seed-{job.recipe.seed}.log"
    place = places.get()
    # A run that names its GPU has to see all of them.
    shown = place if job.recipe.run.device in ("auto", "cuda") else {}
    try:
        with path.open("a", encoding="utf-8") as stream:
            code = subprocess.run(
                command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, env={**threads, **os.environ, **shown}
            ).returncode
    finally:
        places.put(place)
    if code:
        said = [line for line in path.read_text("utf-8").splitlines() if line.startswith("error: ")]
        raise TrainingError(f"{said[-1].removeprefix('error: ') if said else f'ended with {code}'} (log: {path})")


def _start(job: Job) -> Path:
    """Write the row's recipe beside its results, for the child and for whoever wants to train it alone."""
    path = job.folder / f"seed-{job.recipe.seed}.toml"
    write_text(path, dump_recipe(job.recipe))
    return path


def _write_result(job: Job, result: Result) -> None:
    row = job.table.spec.rows[job.row]
    named = {"table": job.table.name, "row": job.row, "label": row.label, "reported": row.reported}
    write_text(job.result, json.dumps({**named, **{key: result[key] for key in result if key not in named}}) + "\n")


def _write_table(table: Table, out: Path) -> Path:
    """Write a table as it stands: Markdown, and JSON beside it."""
    summary = table_summary(table, {row: _read_row(out / table.name / row) for row in table.spec.rows})
    path = out / f"{table.name}.md"
    write_text(path, markdown(summary))
    write_text(path.with_suffix(".json"), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    return path


def table_summary(table: Table, results: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Return a table with the results of its rows, by the name of the row."""
    rows = [
        {"row": name, "label": row.label, "note": row.note, "reported": row.reported, "results": results.get(name, [])}
        for name, row in table.spec.rows.items()
    ]
    return summarise(table.name, table.spec.title, table.spec.source, rows)


def _read_row(folder: Path) -> list[Result]:
    """Read the results of a row, by seed."""
    results = [read_result(path) for path in folder.glob("seed-*.json")]
    return sorted(results, key=lambda result: int(result["seed"]))
