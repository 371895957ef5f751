"""palbert data: look at data, and make rows of it, before training on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from palbert.terminal import print_table

data_app = typer.Typer(no_args_is_help=True, help="Look at data, and make rows of it, before training on it.")

Overrides = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer reads this annotation on Python 3.10
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as training.epochs=5; repeatable."),
]


@data_app.command("check")
def data_check(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a built-in recipe.")],
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write a page with plots here. [data-RECIPE.html]")] = None,
) -> None:
    """Rows, labels, lengths, duplicates and leakage of a recipe's data, as a table and as plots.

    Example:  palbert data check my.toml --out data.html
    """
    from palbert.verbs.check import check_data, label_shares, write_data_report

    summaries = check_data(recipe, overrides=overrides or ())
    rows = [
        [
            item.task,
            item.split,
            f"{item.rows:,}",
            label_shares(item),
            f"{sum(item.lengths) / len(item.lengths):.0f} / {max(item.lengths)}",
            f"{item.truncated:,}",
            f"{item.empty:,}",
            f"{item.duplicates:,}",
            f"{item.leaked:,}",
            ", ".join(f"{kind} {count:,}" for kind, count in item.shared) or "–",
        ]
        for item in summaries
    ]
    header = [
        "task",
        "split",
        "rows",
        "labels",
        "tokens mean / max",
        "cut",
        "empty",
        "twice",
        "in train",
        "shares with",
    ]
    print_table(header, rows)
    path = out or Path(f"data-{Path(recipe).stem}.html")
    write_data_report(path, f"Data of {Path(recipe).stem}", summaries)
    typer.echo(f"\nPlots: {path}")


@data_app.command("phrases")
def data_phrases(
    trees: Annotated[Path, typer.Argument(help="Trees with a grade at every node, one a line: SST's trees/train.txt.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("sst-phrases-train.tsv"),
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Every phrase of a treebank with its own grade, as rows to train on: many times as many as there are sentences.

    Example:  palbert data phrases trees/train.txt --out sst-phrases-train.tsv
    """
    from palbert.data.trees import phrases
    from palbert.errors import DataError, RunFolderError
    from palbert.runtime.files import write_text

    if not trees.is_file():
        raise DataError(f"{trees}: no such file.")
    if out.exists() and not force:
        raise RunFolderError(f"{out}: exists already.", hint="Add --force to replace it.")
    try:
        with trees.open(encoding="utf-8") as stream:
            rows = list(phrases(stream, name=str(trees)))
    except UnicodeDecodeError as error:
        raise DataError(f"{trees}: not UTF-8: {error}.") from error
    lines = [f"{phrase.text}\t{phrase.grade}\t{int(phrase.whole)}\n" for phrase in rows]
    write_text(out, "".join(["phrase\tsentiment\twhole_sentence\n", *lines]))
    typer.echo(f"{len(rows):,} phrases, {sum(phrase.whole for phrase in rows):,} of them sentences: {out}")
