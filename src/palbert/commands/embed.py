"""palbert embed: vectors of texts and files."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Literal

import typer

from palbert.commands.arguments import Checkpoint, Force, Reading, RunOrEncoder, Trust, file_settings
from palbert.commands.predict import Device, Precision
from palbert.errors import PalbertError
from palbert.terminal import say

Texts = Annotated[
    list[str] | None, typer.Option("--text", help="A text; repeatable. Prints one line of JSON per text.")
]
Input = Annotated[
    Path | None, typer.Option("--input", help="A .csv, .tsv, .json, .jsonl, .xlsx or .parquet file, or text with .gz.")
]
Output = Annotated[Path | None, typer.Option("--output", help="The .npy or .parquet file to write.")]
Column = Annotated[str | None, typer.Option("--column", help="The text column. [the run's, the only one, or text]")]
TaskName = Annotated[str | None, typer.Option("--task", "-t", help="The task whose adapter is used, if it has one.")]
Pooling = Annotated[Literal["mean", "cls", "pooler"], typer.Option(help="How token states become one vector.")]
Normalise = Annotated[bool, typer.Option("--normalise", help="Divide each vector by its length.")]


def embed(
    source: RunOrEncoder,
    text: Texts = None,
    file: Input = None,
    output: Output = None,
    column: Column = None,
    read: Reading = None,
    task: TaskName = None,
    pooling: Pooling = "mean",
    normalise: Normalise = False,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    precision: Precision = "auto",
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Turn texts into vectors with the encoder of a run, or with a pretrained one.

    Example commands:

    palbert embed runs/demo --input reviews.csv --output vectors.npy --column review

    palbert embed minilm --input reviews.csv --output vectors.parquet --normalise

    palbert embed runs/demo --text "A quiet little triumph."
    """
    if bool(file) != bool(output) or bool(text) + bool(file) != 1:
        raise PalbertError("embed takes either --text, or --input with --output.", hint="See: palbert embed --help")
    from palbert.verbs.embed_file import embed_file, load_embedder

    predictor = load_embedder(source, checkpoint=checkpoint, device=device, precision=precision)
    if file and output:
        from palbert.reporting.wording import plural

        rows = embed_file(
            predictor,
            file,
            output,
            column=column,
            settings=file_settings(read),
            pooling=pooling,
            normalise=normalise,
            task=task,
            force=force,
        )
        logging.getLogger(__name__).info("%s written to %s", plural(rows, "vector"), output)
        return
    vectors = predictor.embed(text or [], pooling=pooling, normalise=normalise, task=task)
    for each, vector in zip(text or [], vectors.tolist(), strict=True):
        say(json.dumps({"text": each, "vector": vector}, ensure_ascii=False))
