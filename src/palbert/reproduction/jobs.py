"""Jobs: one row with one seed each; their files, and which of them are left to run."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.errors import PalbertError, RunFolderError
from palbert.recipe.load import dump_recipe
from palbert.recipe.schema import Recipe
from palbert.reproduction.fingerprint import describe_difference, fingerprint
from palbert.reproduction.row_results import RowResult, read_row_result
from palbert.reproduction.tables import Table
from palbert.runtime.files import write_text

log = logging.getLogger(__name__)

RunKey = tuple[str, int]
"""Fingerprint and seed: jobs that share both are one run."""


@dataclass(frozen=True)
class Job:
    """One row with one seed."""

    table: Table
    row: str
    recipe: Recipe
    folder: Path
    """The folder of the row's results and runs."""
    key: RunKey

    @property
    def name(self) -> str:
        """Table, row and seed, for messages."""
        return f"{self.table.name}:{self.row}, seed {self.recipe.seed}"

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / f"seed-{self.recipe.seed}"

    @property
    def log(self) -> Path:
        """The output of a child process."""
        return self.folder / f"seed-{self.recipe.seed}.log"

    def write_recipe(self) -> Path:
        """Write the recipe next to the results, for child processes and to train the row alone."""
        path = self.folder / f"seed-{self.recipe.seed}.toml"
        write_text(path, dump_recipe(self.recipe))
        return path

    def write_result(self, result: RowResult) -> None:
        """Write the result of the run under this row's own name; the row is then finished."""
        row = self.table.spec.rows[self.row]
        own = {"table": self.table.name, "row": self.row, "label": row.label, "reported": row.reported}
        content = {**own, **{key: result[key] for key in result if key not in own}}
        write_text(self.folder / f"seed-{self.recipe.seed}.json", json.dumps(content) + "\n")


def plan_table(
    table: Table, out: Path, *, seeds: range, settings: Mapping[str, Any], failures: dict[str, str]
) -> list[Job]:
    """Return the jobs of a table; rows whose recipe is refused go to `failures`."""
    jobs = []
    for seed in seeds:
        for row in table.chosen or table.spec.rows:
            try:
                recipe = table.recipe(row, seed=seed, **settings)
                jobs.append(Job(table, row, recipe, out / table.name / row, (fingerprint(recipe), seed)))
            except PalbertError as error:
                failures[f"{table.name}:{row}, seed {seed}"] = str(error)
                if seed == seeds.start:
                    log.error("%s:%s cannot be run: %s", table.name, row, error)
    return jobs


def skip_finished(planned: Sequence[Job], out: Path) -> dict[RunKey, list[Job]]:
    """Return the jobs that are left, grouped by the run they share; the others get the result of their finished run."""
    results = [read_row_result(path) for path in sorted(out.glob("*/*/*/seed-*.json"))]
    finished = {(result["fingerprint"], result["seed"]): result for result in results}
    remaining: dict[RunKey, list[Job]] = {}
    for job in planned:
        if job.key in finished:
            job.write_result(finished[job.key])
        else:
            remaining.setdefault(job.key, []).append(job)
    return remaining


def refuse_other_settings(jobs: Sequence[Job]) -> None:
    """Refuse to mix results of other settings into a table, including those of seeds that are not asked for."""
    found = []
    for job in {job.folder: job for job in jobs}.values():
        for path in sorted(job.folder.glob("seed-*.json")):
            result = read_row_result(path)
            if result["fingerprint"] != job.key[0]:
                found.append(f"{path}: made with {describe_difference(job.recipe, result)}.")
    if found:
        raise RunFolderError("\n".join(found), hint="Give another folder with --out, or remove these files.")
