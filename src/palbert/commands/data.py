"""palbert data: look at data before training on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from palbert.terminal import print_table

data_app = typer.Typer(no_args_is_help=True, help="Look at data before training on it.")

Overrides = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer reads this annotation on Python 3.10
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as training.epochs=5; repeatable."),
]


@data_app.command("check")
def data_check(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or the name of a built-in recipe.")],
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a page with plots here. [data-<recipe>.html]")
    ] = None,
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
