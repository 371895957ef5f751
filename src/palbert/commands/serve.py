"""palbert serve: a run behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from palbert.commands.arguments import Checkpoint, Trust
from palbert.commands.serve_keys import key_app

RUN = "run"
"""The hidden command that `palbert serve RUN…` stands for."""

Precision = Annotated[
    Literal["auto", "fp32", "bf16", "int8"], typer.Option(help="int8: about twice as fast on a CPU with VNNI.")
]
Watch = Annotated[
    float, typer.Option(min=0, help="Look for a new checkpoint every so many seconds; 0: only on SIGHUP.")
]
ReadTimeout = Annotated[
    float, typer.Option(min=0.1, help="Seconds in which a request has to arrive, and an answer to be read.")
]
Audit = Annotated[Literal["texts", "hashes", "off"], typer.Option(help="What the audit log keeps of inputs.")]
AuditFull = Annotated[
    Literal["serve", "refuse"], typer.Option(help="What to do while the audit log cannot be written.")
]


class _RunsOrCommand(TyperGroup):
    """Takes what is not the name of a command for runs to serve."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [RUN, *args]
        elif not args or args[0] in ctx.help_option_names:
            args = [RUN, "--help"]
        return super().parse_args(ctx, args)


serve_app = typer.Typer(cls=_RunsOrCommand, help="Answer requests over HTTP with one run or several.")
serve_app.add_typer(key_app, name="key")


@serve_app.command(RUN, hidden=True)
def serve(
    runs: Annotated[list[str], typer.Argument(help="Run folders; name=folder gives one another name.")],
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need API keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")] = 8000,
    keys: Annotated[
        Path | None,
        typer.Option(help="The file of API keys. [$PALBERT_KEYS; with another --host the file of palbert serve key]"),
    ] = None,
    checkpoint: Checkpoint = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Precision = "auto",
    trust: Trust = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes; each has the models and its share of cores.")] = 1,
    watch: Watch = 0,
    proxies: Annotated[str, typer.Option(help="Addresses of balancers whose X-Forwarded-For is believed.")] = "",
    rate: Annotated[float, typer.Option(min=0, help="Texts per second that each client may ask; 0: any number.")] = 0,
    burst: Annotated[float, typer.Option(min=0, help="Texts that a client may ask at once. [10 seconds' worth]")] = 0,
    max_items: Annotated[int, typer.Option(min=1, help="Texts per request.")] = 256,
    max_characters: Annotated[int, typer.Option(min=1, help="Characters per text.")] = 20_000,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes per request.")] = 4_000_000,
    max_explained: Annotated[int, typer.Option(min=1, help="Texts per request with explanations.")] = 16,
    queue: Annotated[int, typer.Option(min=1, help="Texts that may wait; then requests are answered with 503.")] = 2048,
    wait_ms: Annotated[float, typer.Option(min=0, help="Milliseconds to wait for others to share a batch.")] = 2,
    read_timeout: ReadTimeout = 30,
    drain: Annotated[float, typer.Option(min=1, help="Seconds that requests have to end after SIGTERM.")] = 30,
    audit: Audit = "texts",
    audit_log: Annotated[Path | None, typer.Option(help="The audit log. [RUN.audit.sqlite, next to the run]")] = None,
    audit_days: Annotated[int, typer.Option(min=0, help="Days to keep rows of the audit log; 0: for ever.")] = 0,
    audit_full: AuditFull = "serve",
) -> None:
    """Answer requests over HTTP with one run or several; a page to try them is at http://127.0.0.1:8000.

    Examples:
    palbert serve runs/demo

    palbert serve a=runs/first b=runs/second --port 9000 --precision int8

    palbert serve key add website --keys keys.json

    palbert serve runs/demo --host 0.0.0.0 --keys keys.json --rate 50 --audit hashes --audit-days 30 --watch 10

    curl http://127.0.0.1:8000/v1/predict --json '{"tasks": "all", "texts": ["A quiet little triumph."]}'
    """
    given = dict(locals())
    from palbert.serving.serve import serve as start

    runs, wait_ms = given.pop("runs"), given.pop("wait_ms")
    start(*runs, wait=wait_ms / 1000, **given)
