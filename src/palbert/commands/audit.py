"""palbert audit: what a service was asked and answered, and whether answers depend on groups of people."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from palbert.commands.arguments import Checkpoint, Force, Json, Run, SpreadsheetSafe, Trust
from palbert.errors import PalbertError
from palbert.terminal import say

BiasOut = Annotated[Path | None, typer.Option("--out", help="The folder to write. [RUN/audits/bias]")]
TaskNames = Annotated[list[str] | None, typer.Option("--task", "-t", help="Only this task; repeatable.")]
Files = Annotated[
    list[Path] | None, typer.Option("--file", help="Sentences in the form of the EEC or of CrowS-Pairs; repeatable.")
]
LexiconFile = Annotated[Path | None, typer.Option("--lexicon", help="A TOML file with axes and words of your own.")]
Rows = Annotated[int, typer.Option(min=1, help="Dev rows per task; chosen at random if there are more.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the choice of rows, intervals and p-values.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]

audit_app = typer.Typer(
    no_args_is_help=True,
    help="See what a service was asked, and whether answers depend on the group of people that a text names.\n\n"
    "Example:  palbert audit bias runs/demo",
)


@audit_app.command("log")
def audit_log(
    run: Annotated[Path | None, typer.Argument(help="The run folder that the service answered from.")] = None,
    log: Annotated[Path | None, typer.Option("--log", help="The log. [next to the run: RUN.audit.sqlite]")] = None,
    since: Annotated[str | None, typer.Option(help="Entries of this date or time and later, in UTC.")] = None,
    until: Annotated[str | None, typer.Option(help="Entries before this date or time, in UTC.")] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Entries of this task.")] = None,
    client: Annotated[str | None, typer.Option(help="Entries of this API key or address.")] = None,
    text: Annotated[str | None, typer.Option(help="Entries with exactly this text, or its hash.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The .jsonl file to write; only you can read it.")] = None,
    force: Force = False,
) -> None:
    """Print the audit log of palbert serve as JSON lines, also while the service runs.

    Example commands:

    palbert audit log runs/demo --since 2026-01-31 --until 2026-02-01T12:00

    palbert audit log runs/demo --task sst --client website --out january.jsonl

    palbert audit log --log copies/audit.sqlite --text "A quiet little triumph."
    """
    from palbert.runtime.files import refuse_to_replace
    from palbert.serving.audit_log import default_log
    from palbert.serving.audit_reader import read_audit_log

    if run is None and log is None:
        raise PalbertError("Expected a run folder, or a log with --log.", hint="See: palbert audit log --help")
    if out and not force:
        refuse_to_replace(out)
    path = log or default_log(run or Path())
    entries = read_audit_log(path, since, until, task, client, text=text)
    if out:
        _write(out, entries, replace=force)
        return
    for entry in entries:
        say(_line(entry))


@audit_app.command("bias")
def audit_bias(
    run: Run,
    out: BiasOut = None,
    task: TaskNames = None,
    file: Files = None,
    lexicon: LexiconFile = None,
    rows: Rows = 5000,
    seed: Seed = 0,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Rewrite texts so that they name another group of people, and measure how far the answers change.

    Gender, names by origin, race, religion, nationality, age, disability and sexual orientation; on dev rows and on
    templates. Writes bias.json, swaps.csv with every pair and both answers, and bias.html.

    Example commands:

    palbert audit bias runs/demo

    palbert audit bias runs/demo --task sst --file eec.tsv --lexicon my-groups.toml --out audits/sst
    """
    from palbert.reporting.bias import bias_table
    from palbert.verbs.audit_bias import audit_bias as audit

    found = audit(
        run,
        out=out,
        tasks=task or None,
        files=file or (),
        lexicon=lexicon,
        rows=rows,
        checkpoint=checkpoint,
        device=device,
        seed=seed,
        spreadsheet_safe=spreadsheet_safe,
        force=force,
    )
    if as_json:
        say(json.dumps(found.summary, indent=1, ensure_ascii=False))
        return
    say(bias_table(found.summary).text())
    logging.getLogger(__name__).info("Everything: %s", found.folder / "bias.html")


def _write(out: Path, entries: Iterable[dict[str, Any]], *, replace: bool) -> None:
    from palbert.reporting.wording import plural
    from palbert.runtime.private import private_file

    rows = 0
    with private_file(out, replace=replace) as stream:
        for entry in entries:
            stream.write(_line(entry) + "\n")
            rows += 1
    logging.getLogger(__name__).info("%s written to %s", plural(rows, "row"), out)


def _line(entry: dict[str, Any]) -> str:
    """Write an entry as JSON; what a terminal would obey is escaped, which means the same."""
    from palbert.runtime.visible import visible

    return visible(json.dumps(entry, ensure_ascii=False))
