"""palbert reproduce and results: tables of runs next to the scores that were reported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import Overrides, Trust
from palbert.errors import TrainingError
from palbert.terminal import print_table, say

Tables = Annotated[
    list[str] | None,
    typer.Argument(help="Tables by name or file, single rows as TABLE:ROW, or all. Without any, the names are listed."),
]
Data = Annotated[str | None, typer.Option("--data", help="A data folder, samples or hub. [$PALBERT_DATA]")]
Encoder = Annotated[
    str | None, typer.Option("--encoder", help="An encoder folder, a Hub id or minilm. [the table's own]")
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds per row: 0, 1, …")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Number of runs at the same time, each in its own process.")]
Out = Annotated[Path | None, typer.Option("--out", help="The folder for tables, results and runs. [runs/reproduce]")]
Smoke = Annotated[bool, typer.Option("--smoke", help="A few steps on sample data, to check that all rows run.")]
KeepCheckpoints = Annotated[bool, typer.Option("--keep-checkpoints", help="Keep the checkpoints of finished runs.")]


def reproduce(
    tables: Tables = None,
    data: Data = None,
    encoder: Encoder = None,
    seeds: Seeds = 1,
    jobs: Jobs = 1,
    out: Out = None,
    smoke: Smoke = False,
    keep: KeepCheckpoints = False,
    overrides: Overrides = None,
    trust: Trust = False,
) -> None:
    """Train every row of a table; write the table with the reported scores next to the new ones.

    The same command continues what was stopped.

    Example commands:

    palbert reproduce sullivan_kumar/table3 --data course --seeds 3 --jobs 2

    palbert reproduce li/table4 li/table5 --encoder encoders/bert-base-uncased

    palbert reproduce all --smoke
    """
    if not tables:
        _list_tables()
        return
    from palbert.reproduction.reproduce import reproduce as reproduce_tables

    done = reproduce_tables(
        tables,
        data=data,
        encoder=encoder,
        seeds=seeds,
        jobs=jobs,
        out=out,
        smoke=smoke,
        keep_checkpoints=keep,
        overrides=overrides or (),
    )
    for path in done.tables:
        say(path.read_text("utf-8"))
    say("\n".join(f"Table: {path}" for path in done.tables))
    if done.failures:
        lines = "\n".join(f"{name}: {error}" for name, error in done.failures.items())
        raise TrainingError(
            f"{len(done.failures)} failed:\n{lines}",
            hint="Fix the cause, then run the same command again: finished runs are skipped.",
        )


def _list_tables() -> None:
    from palbert.reproduction.tables import known_tables, load_table

    print_table(["table", "what it compares"], [[name, load_table(path).spec.title] for name, path in known_tables()])


def results(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with results of palbert reproduce. [recipes/results]"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("results.md"),
) -> None:
    """Write a page with all reproduced tables and the verdicts on the claims.

    Example:  palbert results runs/reproduce --out results.md
    """
    from palbert.reproduction.results_page import results as write_results

    say(f"Page: {write_results(folders or [Path('recipes/results')], out=out)}")
