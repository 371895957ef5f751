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

from palbert.commands.arguments import Checkpoint, Force, Json, Reading, RunOrHub, SpreadsheetSafe, Trust, file_settings
from palbert.errors import DataError, PalbertError
from palbert.terminal import say

if TYPE_CHECKING:
    from palbert.targets import Target
    from palbert.verbs.predict import Prediction, Predictor


TaskName = Annotated[
    str | None, typer.Option("--task", "-t", help="The task to predict. [all tasks that take such input]")
]
Text = Annotated[
    list[str] | None,
    typer.Option("--text", help="A text; repeatable. - reads lines from standard input, pairs separated by a tab."),
]
Pair = Annotated[tuple[str, str] | None, typer.Option("--pair", help="Two texts.")]
Input = Annotated[
    Path | None, typer.Option("--input", help="A .csv, .tsv, .json, .jsonl, .xlsx or .parquet file, or text with .gz.")
]
Output = Annotated[
    Path | None, typer.Option("--output", help="The file to write, in one of these formats except .json.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="A text column of the input; twice for pairs. [as in training]"),
]
MinConfidence = Annotated[
    float | None,
    typer.Option("--min-confidence", min=0, max=1, help="Abstain where an answer is less likely to be right."),
]
EngineName = Annotated[
    Literal["local", "ray"], typer.Option("--engine", help="Score a file in this process, or with workers of Ray.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="How many workers --engine ray has. [2]")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Precision = Annotated[
    Literal["auto", "fp32", "bf16", "int8"], typer.Option(help="int8: about twice as fast on a CPU with VNNI.")
]


def predict(
    run: RunOrHub,
    task: TaskName = None,
    text: Text = None,
    pair: Pair = None,
    source: Input = None,
    output: Output = None,
    column: Columns = None,
    read: Reading = None,
    min_confidence: MinConfidence = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    precision: Precision = "auto",
    engine: EngineName = "local",
    workers: Workers = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    force: Force = False,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Predict for texts, pairs or whole files, with one task or with all at once.

    Example commands:

    palbert predict runs/demo --text "A quiet little triumph."

    palbert predict runs/demo --task sts --pair "A man plays a guitar." "Someone makes music."

    palbert predict runs/demo --input in.csv --output out.csv --column review

    palbert predict runs/demo --task sst --input big.parquet --output answers.parquet --engine ray --workers 8

    cat reviews.txt | palbert predict runs/demo --task sst --text - --json
    """
    _check_arguments(text, pair, source, output, engine, workers, spreadsheet_safe)
    model: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "precision": precision}
    if source and output:
        options = {"columns": column, "min_confidence": min_confidence, "force": force, "settings": file_settings(read)}
        options |= {"spreadsheet_safe": spreadsheet_safe}
        _predict_file(run, model, task, source, output, options, workers if engine == "local" else workers or 2)
        return
    from palbert.verbs.predict import load

    predictor = load(run, **model)
    given = _fitting(predictor, task, text or [pair])
    for batch in _lines_of_stdin(pairs=_takes_pairs(predictor, task)) if given == ["-"] else [given]:
        if task is None:
            _print_all_answers(predictor, batch, min_confidence=min_confidence, as_json=as_json)
        else:
            _print_answers(predictor, task, batch, min_confidence=min_confidence, as_json=as_json)


def _fitting(predictor: Predictor, task: str | None, given: list[Any]) -> list[Any]:
    """Return what is given; refuse --text for a task that takes pairs, and --pair for one that takes single texts."""
    if task is None or given == ["-"]:
        return given
    pairs = isinstance(given[0], tuple)
    if predictor.task(task).kind == "pair" and not pairs:
        raise DataError(
            f"Task '{task}' takes a pair of texts, found --text.",
            hint="Use --pair FIRST SECOND, or --text - with lines of two texts and a tab between them.",
        )
    if predictor.task(task).kind == "single" and pairs:
        raise DataError(f"Task '{task}' takes a single text, found --pair.", hint="Use --text TEXT.")
    return given


def _check_arguments(
    text: list[str] | None,
    pair: Any,
    source: Path | None,
    output: Path | None,
    engine: str,
    workers: int | None,
    spreadsheet_safe: bool,
) -> None:
    """Raise PalbertError for options that do not go together."""
    if bool(source) != bool(output) or bool(text) + bool(pair) + bool(source) != 1:
        expected = "predict takes either --text, or --pair, or --input with --output."
        raise PalbertError(expected, hint="See: palbert predict --help")
    if engine == "ray" and not source:
        raise PalbertError("--engine ray scores files.", hint="Give --input and --output.")
    if spreadsheet_safe and not source:
        raise PalbertError("--spreadsheet-safe is about the file to write.", hint="Give --input and --output.")
    if engine == "local" and workers is not None:
        raise PalbertError("--workers: only Ray has workers.", hint="Add --engine ray.")


def _predict_file(
    run: Path, model: dict[str, Any], task: str | None, source: Path, output: Path, options: Any, workers: int | None
) -> None:
    """Predict a file in this process, or with workers of Ray if their number is given."""
    from palbert.reporting.wording import plural
    from palbert.runtime.stop_signals import terminate_as_interrupt
    from palbert.verbs.predict import load
    from palbert.verbs.predict_file import predict_file

    with terminate_as_interrupt():
        if workers is None:
            predictor, engine = load(run, **model), None
        else:
            from palbert.verbs.engines.ray_engine import RayEngine

            # Here, the model only says what its tasks are; the device belongs to the workers.
            predictor = load(run, checkpoint=model["checkpoint"], device="cpu")
            engine = RayEngine.for_run(run, **model, workers=workers)
        rows = predict_file(predictor, task, source, output, engine=engine, **options)
    logging.getLogger(__name__).info("%s written to %s", plural(rows, "row"), output)


def _takes_pairs(predictor: Predictor, task: str | None) -> bool:
    """Whether lines of standard input are pairs; without a task, only if no task takes single texts."""
    asked = predictor.tasks.values() if task is None else [predictor.task(task)]
    return all(each.kind == "pair" for each in asked)


def _print_answers(
    predictor: Predictor, task: str, texts: list[Any], *, min_confidence: float | None, as_json: bool
) -> None:
    """Print one line per text."""
    predictions = predictor.predict(task, texts, min_confidence=min_confidence)
    for asked, prediction in zip(texts, predictions, strict=True):
        if as_json:
            say(json.dumps({"text": asked, **prediction.as_dict()}, ensure_ascii=False))
        else:
            say(_line(predictor.task(task).target, prediction))


def _line(target: Target, prediction: Prediction) -> str:
    """Write a prediction in one line, or that there is none and the likeliest classes."""
    if not prediction.abstained:
        return target.line(prediction.answer, prediction.probabilities)
    ordered = sorted((prediction.probabilities or {}).items(), key=lambda item: -item[1])
    return f"abstained  ({', '.join(f'{name} {share:.3f}' for name, share in ordered)})"


def _print_all_answers(predictor: Predictor, texts: list[Any], *, min_confidence: float | None, as_json: bool) -> None:
    """Print each text with one line per task below it; with `as_json`, one line per text."""
    if as_json and "text" in predictor.tasks:
        raise PalbertError("--json: the answers of the task 'text' would replace the text.", hint="Give --task.")
    for asked, predictions in zip(texts, predictor.predict_all(texts, min_confidence=min_confidence), strict=True):
        if as_json:
            answers = {name: prediction.as_dict() for name, prediction in predictions.items()}
            say(json.dumps({"text": asked, **answers}, ensure_ascii=False))
            continue
        say(asked if isinstance(asked, str) else "  |  ".join(asked))
        width = max(map(len, predictions))
        for name, prediction in predictions.items():
            say(f"  {name:{width}}  {_line(predictor.task(name).target, prediction)}")


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
