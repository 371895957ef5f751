"""Reproduce: train every row of some tables with several seeds, and compare with the reported scores."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palbert.errors import PalbertError, RecipeError, StoppedError
from palbert.reporting import display
from palbert.reporting.wording import plural
from palbert.reproduction.collect import collect_result
from palbert.reproduction.jobs import Job, RunKey, plan_table, refuse_other_settings, skip_finished
from palbert.reproduction.markdown import table_markdown
from palbert.reproduction.row_results import read_row
from palbert.reproduction.runners import run_jobs
from palbert.reproduction.summaries import summarise_table
from palbert.reproduction.tables import Table, load_tables
from palbert.runtime.files import write_text
from palbert.runtime.progress import bar
from palbert.runtime.run_folder import RunFolder

log = logging.getLogger(__name__)


@dataclass
class Reproduction:
    """What `reproduce` wrote, and what failed."""

    tables: list[Path] = field(default_factory=list)
    """The tables, as Markdown; each has a JSON file next to it."""
    failures: dict[str, str] = field(default_factory=dict)
    """Error messages, by row and seed."""

    def _repr_html_(self) -> str:
        written = [(str(path), "written") for path in self.tables]
        return display.Table(("table or row", ""), [*written, *self.failures.items()]).html()


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
    """Train every row of some tables with several seeds, and write the tables with reported scores and ours.

    Finished rows are not run again, and interrupted ones are resumed. A row that fails does not stop the others.

    Args:
        tables: Names such as `sullivan_kumar/table3`, files, or `all`; `sullivan_kumar/table3:1-pals` is one row.
        data: A data folder in place of the tables' own.
        encoder: An encoder in place of the tables' own.
        seeds: The number of seeds per row: 0, 1, …
        jobs: Runs at a time; with more than one, each is a child process with a log file, spread over all GPUs.
        out: The folder for results and runs; runs/reproduce unless given, or runs/reproduce-smoke.
        smoke: Run a few steps on the sample data, to check that all rows run.
        keep_checkpoints: Keep the checkpoints of finished runs.
        overrides: Settings as `key=value`, for all rows.

    Raises:
        StoppedError: Ctrl-C; the same call continues.
    """
    if seeds < 1 or jobs < 1:
        raise PalbertError(f"Expected at least one seed and one job, found {seeds} and {jobs}.")
    if any(override.replace(" ", "").startswith("seed=") for override in overrides):
        raise RecipeError("A table runs seeds 0, 1, …: 'seed' cannot be set.", hint="Give their number with --seeds.")
    out = Path(out or ("runs/reproduce-smoke" if smoke else "runs/reproduce"))
    loaded = load_tables([tables] if isinstance(tables, str | Path) else tables)
    settings = {"data": data and str(data), "encoder": encoder and str(encoder), "smoke": smoke, "overrides": overrides}
    done = Reproduction()
    planned = _plan(loaded, out, seeds=range(seeds), settings=settings, done=done)
    refuse_other_settings(planned)
    remaining = skip_finished(planned, out)
    log.info("%s, %d to do", plural(len({job.key for job in planned}), "run"), len(remaining))
    done.tables = [_write_table(table, out) for table in loaded]
    try:
        _run_all(remaining, done, out, jobs=jobs, smoke=smoke, keep_checkpoints=keep_checkpoints)
    except KeyboardInterrupt:
        raise StoppedError(out, verb="reproduce") from None
    return done


def _plan(
    tables: Sequence[Table], out: Path, *, seeds: range, settings: Mapping[str, Any], done: Reproduction
) -> list[Job]:
    """Return the jobs of all tables in the order of seeds: an interruption leaves some results of every row."""
    planned: list[Job] = []
    for table in tables:
        planned += plan_table(table, out, seeds=seeds, settings=settings, failures=done.failures)
    if not planned:
        raise RecipeError(next(iter(done.failures.values())))
    return sorted(planned, key=lambda job: job.recipe.seed)


def _run_all(
    remaining: dict[RunKey, list[Job]],
    done: Reproduction,
    out: Path,
    *,
    jobs: int,
    smoke: bool,
    keep_checkpoints: bool,
) -> None:
    """Train each run once; write the results of all jobs that share it, and their tables, as soon as it ends."""
    with bar("runs", total=len(remaining)) as progress:
        for first, error in run_jobs([same[0] for same in remaining.values()], at_a_time=jobs):
            if error:
                log.error("%s: %s", first.name, error)
            result = None if error else {**collect_result(first.run), "jobs": jobs, "smoke": smoke}
            for job in remaining[first.key]:
                if result is None:
                    done.failures[job.name] = error
                else:
                    job.write_result(result)
                _write_table(job.table, out)
            if not error and not keep_checkpoints:
                shutil.rmtree(RunFolder(first.run).checkpoints, ignore_errors=True)
            progress.advance(detail=first.name)


def _write_table(table: Table, out: Path) -> Path:
    """Write the current state of a table as Markdown and, next to it, as JSON."""
    summary = summarise_table(table, {row: read_row(out / table.name / row) for row in table.spec.rows})
    path = out / f"{table.name}.md"
    write_text(path, table_markdown(summary))
    write_text(path.with_suffix(".json"), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    return path
