"""The command line: one function per verb — parse, call, print."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer
from typer.core import TyperGroup

from palbert import __version__
from palbert.commands.data import Overrides, data_app
from palbert.commands.reproduce import reproduce, results
from palbert.commands.submit import submit
from palbert.errors import DataError, PalbertError, StoppedError
from palbert.terminal import (
    complain,
    how_to_continue,
    is_first_process,
    log_to_terminal,
    print_comparisons,
    print_memory,
    print_summary,
    print_table,
    shown_answer,
)

INTERRUPTED = 130
"""The exit code of a program that was ended by Ctrl-C."""


class _Verbs(TyperGroup):
    """Reports Ctrl-C and how to continue, where typer would only print "Aborted"."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            if is_first_process():  # all processes stop, one reports it
                complain("stopped", how_to_continue(interrupt) if isinstance(interrupt, StoppedError) else None)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="palbert",
    cls=_Verbs,
    help="One pretrained BERT encoder, many sentence-level tasks.\n\nStart with:  palbert demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")

Run = Annotated[Path, typer.Argument(help="The folder of a run.")]
Out = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads this annotation on Python 3.10
    typer.Option("--out", help="The run folder. [runs/RECIPE]"),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Split = Annotated[Literal["train", "dev", "test"], typer.Option(help="Which rows.")]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"palbert {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Out = Path("runs/demo"),
    force: Force = False,
    overrides: Overrides = None,
) -> None:
    """Train sentiment, paraphrase and similarity on the sample data, report, and predict.

    Example:  palbert demo --out runs/demo
    """
    from palbert.verbs.demo import QUESTIONS
    from palbert.verbs.predict import load
    from palbert.verbs.train import train

    folder = train("demo", out=out, force=force, overrides=overrides or ())
    print_summary(json.loads((folder / "report.json").read_text("utf-8")))
    predictor = load(folder)
    for task, text in QUESTIONS:
        [answer] = predictor.predict(task, [text])
        shown = text if isinstance(text, str) else " / ".join(text)
        typer.echo(f"{task:>6}  {shown}\n        → {shown_answer(answer.answer, answer.probabilities)}")
    typer.echo(f"\nReport: {folder / 'report.html'}")


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a built-in recipe.")],
    overrides: Overrides = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    force: Force = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Load and check everything, show the memory that a step takes, write nothing."),
    ] = False,
) -> None:
    """Train a recipe and report on it.

    Examples:
    palbert train my.toml --set training.epochs=5 --out runs/mine

    palbert train my.toml --dry-run
    """
    from palbert.recipe.load import load_recipe

    loaded = load_recipe(recipe, overrides=overrides or ())  # a wrong recipe is answered before torch is loaded
    if dry_run:
        from palbert.verbs.dry_run import dry_run as try_recipe

        print_memory(try_recipe(loaded).summary)
        return
    from palbert.verbs.train import train as train_recipe

    out = out or Path("runs") / Path(recipe).stem
    folder = train_recipe(loaded, out=out, resume=resume, force=force)
    if is_first_process():
        print_summary(json.loads((folder / "report.json").read_text("utf-8")))
        typer.echo(f"\nReport: {folder / 'report.html'}")


@app.command()
def pretrain(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a built-in recipe.")],
    text: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option("--text", help="A .txt file to learn from too, one text a line; repeatable."),
    ] = None,
    overrides: Overrides = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", help="The folder of the new encoder. [runs/RECIPE-pretrained]"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was begun in that folder.")] = False,
    force: Force = False,
) -> None:
    """Train the encoder further on masked words of the tasks' training texts, before any task.

    Examples:
    palbert pretrain my.toml --text reviews.txt --out encoders/mine

    palbert train my.toml --set encoder=encoders/mine
    """
    from palbert.recipe.load import load_recipe, with_texts

    loaded = with_texts(load_recipe(recipe, overrides=overrides or ()), text or ())
    from palbert.verbs.pretrain import pretrain as pretrain_recipe

    out = out or Path("runs") / f"{Path(recipe).stem}-pretrained"
    folder = pretrain_recipe(loaded, out=out, resume=resume, force=force)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    rows = [[name, f"{report['before'][name]:.4f}", f"{report[name]:.4f}"] for name in ("loss", "perplexity")]
    print_table(["held-out texts", "before", "after"], rows)
    typer.echo(f"\n{report['rows']:,} texts, {report['tokens']:,} tokens, {report['seconds']:.0f} s\nEncoder: {folder}")


@app.command()
def evaluate(
    run: Run,
    split: Split = "dev",
    checkpoint: Annotated[Optional[str], typer.Option(help="best, last, best-TASK. [best]")] = None,  # noqa: UP045
    as_json: Json = False,
) -> None:
    """Score a run on a split; write its predictions and its report.

    Example:  palbert evaluate runs/demo --split dev
    """
    from palbert.verbs.evaluate import evaluate as evaluate_run

    report = evaluate_run(run, split=split, checkpoint=checkpoint)
    if as_json:
        typer.echo(json.dumps(report.summary, ensure_ascii=False))
    else:
        print_summary(report.summary)
        typer.echo(f"\nCheckpoint: {report.summary['checkpoint']}\nReport: {report.page}")


@app.command()
def predict(
    run: Run,
    task: Annotated[str, typer.Option("--task", "-t", help="Which task to ask.")],
    text: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--text", help="A text; repeatable. -: lines of standard input, pairs with a tab between."),
    ] = None,
    pair: Annotated[Optional[tuple[str, str]], typer.Option("--pair", help="Two texts.")] = None,  # noqa: UP045
    source: Annotated[Path | None, typer.Option("--input", help="A .csv, .tsv, .jsonl or .parquet file.")] = None,
    target: Annotated[Optional[Path], typer.Option("--output", help="Where to write the answers.")] = None,  # noqa: UP045
    column: Annotated[
        list[str] | None,
        typer.Option("--column", help="A text column of the input; twice for pairs. [as in training]"),
    ] = None,
    checkpoint: Annotated[Optional[str], typer.Option(help="best, last, best-TASK. [best]")] = None,  # noqa: UP045
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "int8"], typer.Option(help="int8: about twice as fast on a CPU with VNNI.")
    ] = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Answer for texts, pairs or whole files.

    Examples:
    palbert predict runs/demo --task sst --text "A quiet little triumph."

    palbert predict runs/demo --task sts --pair "A man plays a guitar." "Someone makes music."

    palbert predict runs/demo --task sst --input in.csv --output out.csv

    cat reviews.txt | palbert predict runs/demo --task sst --text - --json
    """
    if bool(source) != bool(target) or bool(text) + bool(pair) + bool(source) != 1:
        raise PalbertError(
            "predict takes either --text, or --pair, or --input with --output.",
            hint="See: palbert predict --help",
        )
    from palbert.verbs.predict import load

    predictor = load(run, checkpoint=checkpoint, device=device, precision=precision)
    if source and target:
        from palbert.reporting.wording import plural
        from palbert.verbs.predict_file import predict_file

        rows = predict_file(predictor, task, source, target, columns=column, force=force)
        logging.getLogger(__name__).info("%s written to %s", plural(rows, "row"), target)
        return
    given: list[Any] = text or [pair]
    for asked_for in _typed(pairs=predictor.task(task).kind == "pair") if given == ["-"] else [given]:
        for asked, prediction in zip(asked_for, predictor.predict(task, asked_for), strict=True):
            if as_json:
                typer.echo(json.dumps({"text": asked, **prediction.as_dict()}, ensure_ascii=False))
            else:
                typer.echo(shown_answer(prediction.answer, prediction.probabilities))


def _typed(*, pairs: bool) -> Iterator[list[Any]]:
    """Give the lines of standard input: many at a time, or as they come where somebody types them."""
    many = 1 if sys.stdin.isatty() else 1024
    try:
        while lines := [line.rstrip("\r\n") for line in islice(sys.stdin, many)]:
            yield [tuple(line.split("\t")) for line in lines] if pairs else lines
    except UnicodeDecodeError:
        raise DataError("standard input: expected UTF-8.", hint="Convert it: iconv -f latin1 -t utf-8") from None


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two runs or more; the others are compared with the first.")],
    split: Split = "dev",
    as_json: Json = False,
) -> None:
    """Compare runs on the same rows by paired bootstrap.

    Example:  palbert compare runs/plain runs/annealed
    """
    from dataclasses import asdict

    from palbert.verbs.compare import compare as compare_runs

    comparisons = compare_runs(runs, split=split)
    if as_json:
        typer.echo(json.dumps([asdict(item) for item in comparisons]))
        return
    print_comparisons(comparisons, str(runs[0]))


@app.command()
def recipes() -> None:
    """List the recipes that can be trained by name.

    Example:  palbert recipes
    """
    from palbert.recipe.load import list_recipes

    print_table(["recipe", "what it does"], [[name, description] for name, description in list_recipes()])


app.command()(reproduce)
app.command()(results)
app.command()(submit)


def main() -> None:
    """Run the command line; one of several processes ends without the interpreter's own end.

    There, gloo's threads may still hold tensors that they cannot let go of any more, and abort a run that is complete
    (https://github.com/pytorch/pytorch/pull/179291).
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
    """Parse and call; errors become one message and an exit code."""
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    log_to_terminal()
    try:
        app(prog_name="palbert")
    except PalbertError as error:
        if debug:
            traceback.print_exc()
        complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            traceback.print_exc()
        complain(f"{type(error).__name__}: {error}", "Not your input's fault; --debug shows where it happened.")
        sys.exit(1)
