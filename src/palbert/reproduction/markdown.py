"""Markdown: a table summary as a reader sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palbert.reproduction.seeds import Spread
from palbert.reproduction.summaries import TableSummary


def table_markdown(summary: TableSummary, *, level: int = 1) -> str:
    """Write a table as Markdown: our score, the reported one and the difference in one cell per metric.

    Args:
        summary: The table.
        level: The level of its heading.
    """
    metrics = summary["metrics"]
    lines = [f"{'#' * level} {summary['title']}", ""]
    lines += [f"{summary['source']}.", ""] if summary["source"] else []
    lines += [markdown_row(["", *metrics, "seconds", "parameters (trained)", "seeds"])]
    lines += [markdown_row(["---"] * (len(metrics) + 4))]
    lines += [_table_row(row, metrics) for row in summary["rows"]]
    reported = any(row["reported"] for row in summary["rows"])
    lines += ["", "Each cell: our score; the reported one, and ours minus it."] if reported else []
    lines += ["", summary["caption"]]
    notes = [f"- {row['label']}: {row['note']}" for row in summary["rows"] if row["note"]]
    lines += ["", *notes] if notes else []
    return "\n".join(lines) + "\n"


def markdown_row(cells: Sequence[str]) -> str:
    """Write a row of a Markdown table; a bar inside a cell is replaced by a character that looks like one."""
    return f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |"


def _table_row(row: Mapping[str, Any], metrics: Sequence[str]) -> str:
    parameters = row["parameters"]
    counts = f"{parameters['total']:,} ({parameters['trained']:,})" if parameters else "–"
    seconds = f"{row['seconds']:,.0f}" if row["seconds"] is not None else "–"
    seeds = str(len(row["seeds"]) or "not run")
    return markdown_row([row["label"], *(_cell(row, metric) for metric in metrics), seconds, counts, seeds])


def _cell(row: Mapping[str, Any], metric: str) -> str:
    ours, reported = row["ours"].get(metric), row["reported"].get(metric)
    parts = [str(Spread(**ours))] if ours else []
    if reported is not None:
        difference = f" ({row['difference'][metric]:+.3f})" if ours else ""
        parts.append(f"reported {reported:.3f}{difference}")
    return "; ".join(parts) or "–"
