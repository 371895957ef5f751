"""palbert data: inspect data before training, and make training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import Force, Overrides, RecipeName
from palbert.terminal import print_table, say

data_app = typer.Typer(
    no_args_is_help=True,
    help="Inspect data before training, and make training rows.\n\nExample:  palbert data check my.toml",
)


@data_app.command("check")
def data_check(
    recipe: RecipeName,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option("--out", help="The page with plots. [data-RECIPE.html]")] = None,
) -> None:
    """Show rows, labels, lengths, duplicates and overlap of a recipe's data, as a table and as plots.

    Example:  palbert data check my.toml --out data.html
    """
    from palbert.verbs.check import check_data, write_data_report

    summaries = check_data(recipe, overrides=overrides or ())
    table = summaries.table()
    print_table(list(table.header), [list(row) for row in table.rows])
    if suggested := [sentence for summary in summaries for sentence in summary.advice]:
        say("\nAdvice")
        for sentence in suggested:
            say(f"- {sentence}")
    path = out or Path(f"data-{Path(recipe).stem}.html")
    write_data_report(path, f"Data of {Path(recipe).stem}", summaries)
    say(f"\nPlots: {path}")


@data_app.command("phrases")
def data_phrases(
    trees: Annotated[
        Path, typer.Argument(help="Trees with a grade at every node, one per line: SST's trees/train.txt.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("sst-phrases-train.tsv"),
    force: Force = False,
) -> None:
    """Write every phrase of a graded treebank as a training row: many more rows than sentences.

    Example:  palbert data phrases trees/train.txt --out sst-phrases-train.tsv
    """
    from palbert.data.trees import phrases
    from palbert.errors import DataError
    from palbert.runtime.files import refuse_to_replace, write_text

    if not trees.is_file():
        raise DataError(f"{trees}: no such file.")
    if not force:
        refuse_to_replace(out)
    try:
        with trees.open(encoding="utf-8") as stream:
            rows = list(phrases(stream, name=str(trees)))
    except UnicodeDecodeError as error:
        raise DataError(f"{trees}: not UTF-8: {error}.") from error
    lines = [f"{phrase.text}\t{phrase.grade}\t{int(phrase.whole)}\n" for phrase in rows]
    write_text(out, "".join(["phrase\tsentiment\twhole_sentence\n", *lines]), replace=force)
    say(f"{len(rows):,} phrases, {sum(phrase.whole for phrase in rows):,} of them sentences: {out}")
