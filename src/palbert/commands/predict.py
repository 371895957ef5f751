"""palbert predict: answers for texts, pairs and files."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from palbert.commands.arguments import Checkpoint, Force, Json, Run
from palbert.errors import DataError, PalbertError

if TYPE_CHECKING:
    from palbert.verbs.predict import Predictor


TaskName = Annotated[str, typer.Option("--task", "-t", help="The task to predict.")]
Text = Annotated[
    list[str] | None,
    typer.Option("--text", help="A text; repeatable. - reads lines from standard input, pairs separated by a tab."),
]
Pair = Annotated[tuple[str, str] | None, typer.Option("--pair", help="Two texts.")]
Input = Annotated[Path | None, typer.Option("--input", help="A .csv, .tsv, .jsonl or .parquet file.")]
Output = Annotated[Path | None, typer.Option("--output", help="The file to write, in any of these formats.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="A text column of the input; twice for pairs. [as in training]"),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Precision = Annotated[
    Literal["auto", "fp32", "bf16", "int8"], typer.Option(help="int8: about twice as fast on a CPU with VNNI.")
]


def predict(
    run: Run,
    task: TaskName,
    text: Text = None,
    pair: Pair = None,
    source: Input = None,
    output: Output = None,
    column: Columns = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    precision: Precision = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict for texts, pairs or whole files.

    Example commands:

    palbert predict runs/demo --task sst --text "A quiet little triumph."

    palbert predict runs/demo --task sts --pair "A man plays a guitar." "Someone makes music."

    palbert predict runs/demo --task sst --input in.csv --output out.csv

    cat reviews.txt | palbert predict runs/demo --task sst --text - --json
    """
    if bool(source) != bool(output) or bool(text) + bool(pair) + bool(source) != 1:
        expected = "predict takes either --text, or --pair, or --input with --output."
        raise PalbertError(expected, hint="See: palbert predict --help")
    from palbert.verbs.predict import load

    predictor = load(run, checkpoint=checkpoint, device=device, precision=precision)
    if source and output:
        from palbert.reporting.wording import plural
        from palbert.verbs.predict_file import predict_file

        rows = predict_file(predictor, task, source, output, columns=column, force=force)
        logging.getLogger(__name__).info("%s written to %s", plural(rows, "row"), output)
        return
    given: list[Any] = text or [pair]
    for batch in _lines_of_stdin(pairs=predictor.task(task).kind == "pair") if given == ["-"] else [given]:
        _print_answers(predictor, task, batch, as_json=as_json)


def _print_answers(predictor: Predictor, task: str, texts: list[Any], *, as_json: bool) -> None:
    """Print one line per text."""
    for asked, prediction in zip(texts, predictor.predict(task, texts), strict=True):
        if as_json:
            typer.echo(json.dumps({"text": asked, **prediction.as_dict()}, ensure_ascii=False))
        else:
            typer.echo(predictor.task(task).target.line(prediction.answer, prediction.probabilities))


def _lines_of_stdin(*, pairs: bool) -> Iterator[list[Any]]:
    """Yield the lines of standard input in batches; line by line at a terminal, so that each is answered at once."""
    size = 1 if sys.stdin.isatty() else 1024
    first = 1
    try:
        while lines := [line.rstrip("\r\n") for line in islice(sys.stdin, size)]:
            yield [_pair(line, number) for number, line in enumerate(lines, first)] if pairs else lines
            first += len(lines)
    except UnicodeDecodeError:
        raise DataError("standard input: expected UTF-8.", hint="Convert it: iconv -f latin1 -t utf-8") from None


def _pair(line: str, number: int) -> tuple[str, ...]:
    texts = tuple(line.split("\t"))
    if len(texts) != 2:
        raise DataError(f"standard input, line {number}: expected two texts with a tab between, found {line!r:.60}.")
    return texts
