"""palbert explain: which words led to an answer, and which training rows are like it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from palbert.commands.arguments import Checkpoint, Force, Json, Reading, RunOrHub, Trust, file_settings
from palbert.errors import PalbertError
from palbert.terminal import say

TaskName = Annotated[str | None, typer.Option("--task", "-t", help="The task that answers. [the run's, if it has one]")]
Texts = Annotated[list[str] | None, typer.Option("--text", help="A text; repeatable.")]
Pair = Annotated[tuple[str, str] | None, typer.Option("--pair", help="Two texts.")]
Input = Annotated[
    Path | None, typer.Option("--input", help="A .csv, .tsv, .json, .jsonl, .xlsx or .parquet file, or text with .gz.")
]
Output = Annotated[Path | None, typer.Option("--output", help="The .jsonl file to write.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="A text column of the input; twice for pairs. [as in training]")
]
Method = Annotated[
    Literal["integrated-gradients", "gradient-input", "occlusion"],
    typer.Option(help="How words are scored: by gradients along a path, by one gradient, or by masking each word."),
]
Target = Annotated[str | None, typer.Option(help="The class to explain. [the answer]")]
WithInteractions = Annotated[
    bool, typer.Option("--interactions", help="For pairs: which words of one text answer to which of the other.")
]
Similar = Annotated[int, typer.Option(min=0, help="Also show so many training rows that are most like the text.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page with coloured words.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]


def explain(
    run: RunOrHub,
    task: TaskName = None,
    text: Texts = None,
    pair: Pair = None,
    source: Input = None,
    output: Output = None,
    column: Columns = None,
    read: Reading = None,
    method: Method = "integrated-gradients",
    target: Target = None,
    interactions: WithInteractions = False,
    similar: Similar = 0,
    html: Html = None,
    checkpoint: Checkpoint = None,
    device: Device = "auto",
    force: Force = False,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Show which words led to an answer, and by how much.

    Example commands:

    palbert explain runs/demo --task sst --text "A quiet little triumph."

    palbert explain runs/demo --task sts --pair "A man plays a guitar." "Someone makes music." --interactions

    palbert explain runs/demo --task sst --input reviews.csv --output why.jsonl --method occlusion

    palbert explain runs/demo --task sst --text "A quiet little triumph." --similar 5 --html why.html
    """
    _check_arguments(text, pair, source, output, html if not force else None, apart=bool(html or as_json))
    from palbert.verbs.predict import load

    predictor = load(run, checkpoint=checkpoint, device=device)
    name = task or _only_task(list(predictor.tasks))
    options: dict[str, Any] = {"method": method, "target": target, "interactions": interactions}
    if source and output:
        options |= {"columns": column, "settings": file_settings(read), "similar": similar, "force": force}
        _explain_file(predictor, name, source, output, options)
        return
    _explain_texts(predictor, name, text or [pair], options, similar=similar, html=html, as_json=as_json, force=force)


def _check_arguments(
    text: list[str] | None, pair: Any, source: Path | None, output: Path | None, kept: Path | None, *, apart: bool
) -> None:
    """Raise PalbertError for options that do not go together, and for a page that is there and must be kept."""
    if bool(source) != bool(output) or bool(text) + bool(pair) + bool(source) != 1:
        expected = "explain takes either --text, or --pair, or --input with --output."
        raise PalbertError(expected, hint="See: palbert explain --help")
    if source and apart:
        raise PalbertError("--html and --json are for --text and --pair.", hint="--output is a file of JSON lines.")
    if kept:
        from palbert.runtime.files import refuse_to_replace

        refuse_to_replace(kept)


def _explain_file(predictor: Any, task: str, source: Path, output: Path, options: dict[str, Any]) -> None:
    from palbert.reporting.wording import plural
    from palbert.verbs.explain_file import explain_file

    rows = explain_file(predictor, task, source, output, **options)
    logging.getLogger(__name__).info("%s written to %s", plural(rows, "explanation"), output)


def _only_task(names: list[str]) -> str:
    if len(names) != 1:
        raise PalbertError("Which task's answer?", hint=f"Name it with --task: {', '.join(names)}.")
    return names[0]


def _explain_texts(
    predictor: Any,
    task: str,
    texts: list[Any],
    options: dict[str, Any],
    *,
    similar: int,
    html: Path | None,
    as_json: bool,
    force: bool,
) -> None:
    """Print explanations, and write them as a page if that is asked for."""
    from palbert.explanations.lines import explanation_lines
    from palbert.explanations.markup import explanations_page
    from palbert.runtime.files import write_text

    explanations = predictor.explain(task, texts, **options)
    near = predictor.similar(task, texts, count=similar) if similar else [[] for _ in texts]
    for given, explanation, rows in zip(texts, explanations, near, strict=True):
        if as_json:
            extra = {"similar": [row.as_dict() for row in rows]} if similar else {}
            say(json.dumps({"text": given, **explanation.as_dict(), **extra}, ensure_ascii=False))
            continue
        for line in explanation_lines(explanation):
            say(line)
        if similar:
            say("  Training rows most like it, with the cosine of their vectors and their label:")
        for row in rows:
            say(f"  {row.similarity:8.3f}  {row.answer}  {' | '.join(row.texts)}")
    if html:
        page = explanations_page(f"Why: {task}", explanations, near if similar else None)
        write_text(html, page, replace=force)
        logging.getLogger(__name__).info("The page is written to %s", html)
