"""The command line: all verbs by group, and how errors end the program."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from palbert import __version__
from palbert.commands.audit import audit_app
from palbert.commands.card import card
from palbert.commands.data import data_app
from palbert.commands.embed import embed
from palbert.commands.explain import explain
from palbert.commands.export import export
from palbert.commands.grow import add_task, merge, remove_task
from palbert.commands.predict import predict
from palbert.commands.push import push
from palbert.commands.reproduce import reproduce, results
from palbert.commands.serve import serve_app
from palbert.commands.submit import submit
from palbert.commands.train import demo, parts, pretrain, recipes, train
from palbert.commands.tune import tune
from palbert.commands.understand import compare, evaluate
from palbert.errors import PalbertError, StoppedError
from palbert.registry.registry import OUTSIDE, look_in
from palbert.runtime.visible import visible
from palbert.terminal import (
    how_to_continue,
    is_first_process,
    let_first_process_report,
    log_to_terminal,
    print_details,
    print_error,
    print_traceback,
    say,
)

INTERRUPTED = 130
"""The exit code of a program that was ended by Ctrl-C."""
NO_MEMORY = ("DefaultCPUAllocator: can't allocate", "out of memory")
"""What torch's errors say where the memory of the CPU or of a GPU is full."""
SMALLER = (
    "Make batch_size or max_length smaller, or set training.accumulation; palbert train --dry-run shows the memory."
)
WRONG_NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
"""Errors about a path that was given, whatever the disk holds."""
VERBS = {
    "Train": (demo, train, tune, pretrain, recipes, parts),
    "Grow": (add_task, remove_task, merge),
    "Use": (predict, embed),
    "Understand": (evaluate, compare, explain),
    "Share": (export, card, push, submit),
    "Research": (reproduce, results),
}
"""The verbs by their heading in `palbert --help`; `serve` belongs to "Use", `data` and `audit` to "Understand"."""


@contextmanager
def _visible_errors() -> Iterator[None]:
    """Write control characters out in typer's own errors about arguments, which repeat what was given."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):
            let_first_process_report(error)
            error.message = visible(error.message)  # type: ignore[attr-defined]
        raise


class _Verbs(TyperGroup):
    """Reports Ctrl-C and how to continue, where typer would only print "Aborted"; shows arguments as text."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _visible_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _visible_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            if is_first_process():  # all processes stop, one reports it
                print_error("stopped", how_to_continue(interrupt) if isinstance(interrupt, StoppedError) else None)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="palbert",
    cls=_Verbs,
    help="One pretrained encoder, many sentence-level tasks.\n\nStart with:  palbert demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for heading, verbs in VERBS.items():
    for verb in verbs:
        app.command(rich_help_panel=heading)(verb)
app.add_typer(serve_app, name="serve", rich_help_panel="Use")
app.add_typer(data_app, name="data", rich_help_panel="Understand")
app.add_typer(audit_app, name="audit", rich_help_panel="Understand")


def _version(show: bool) -> None:
    if show:
        say(f"palbert {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line.

    With several processes, a process exits without the interpreter's clean-up: threads of gloo may still hold tensors
    then, and abort a run that is complete (https://github.com/pytorch/pytorch/pull/179291).
    """
    try:
        _run()
    except SystemExit as end:
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(end.code or 0))


def _run() -> None:
    """Parse and call; an error becomes one message and an exit code."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    look_in("")  # the current folder, for "module:Class"
    log_to_terminal()
    try:
        with _reporting_once():
            app(prog_name="palbert")
    except PalbertError as error:
        if debug:
            print_traceback()
        print_error(error.message, error.hint)
        if debug and error.details:
            print_details(error.details)
        sys.exit(error.exit_code)
    except OSError as error:  # a file that cannot be read, a lost disk or network
        if debug:
            print_traceback()
        print_error(str(error), None)
        sys.exit(2 if error.errno in WRONG_NAMES else 1)
    except Exception as error:
        if debug:
            print_traceback()
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in NO_MEMORY):
            print_error("there is not enough memory on this machine.", SMALLER)
            sys.exit(1)
        print_error(f"{type(error).__name__}: {error}", _whose_bug())
        sys.exit(1)


@contextmanager
def _reporting_once() -> Iterator[None]:
    """Of several processes with the same error, let one report it."""
    try:
        yield
    except Exception as error:
        let_first_process_report(error)
        raise


def _whose_bug() -> str:
    """Return what to do about an unexpected error, which may come from a part that is not palbert's own."""
    if not OUTSIDE:
        return "This is a bug in palbert. Re-run with --debug and report it."
    return f"This is a bug in {', '.join(OUTSIDE)} or in palbert. Re-run with --debug to see where."
