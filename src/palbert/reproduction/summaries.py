"""Table summaries: our scores over seeds next to the reported ones, and what they were measured with, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from palbert.reproduction.row_results import RowResult, scores
from palbert.reproduction.seeds import spread
from palbert.reproduction.tables import Table
from palbert.tasks.catalog import SEEN_BY_ENCODERS

TableSummary = Mapping[str, Any]
"""A table with the results of its rows, as its JSON file holds it."""


def summarise_table(table: Table, results: Mapping[str, Sequence[RowResult]]) -> TableSummary:
    """Summarise a table, given the results of its rows by name."""
    rows = [
        {"row": name, "label": row.label, "note": row.note, "reported": row.reported, "results": results.get(name, [])}
        for name, row in table.spec.rows.items()
    ]
    return summarise(table.name, table.spec.title, table.spec.source, rows)


def summarise(name: str, title: str, source: str, rows: Sequence[Mapping[str, Any]]) -> TableSummary:
    """Summarise rows, each with its name, label, note, reported scores and results by seed."""
    metrics = _columns(rows)
    results = [result for row in rows for result in row["results"]]
    return {
        "table": name,
        "title": title,
        "source": source,
        "caption": caption(results),
        "metrics": metrics,
        "rows": [_summarise_row(row, metrics) for row in rows],
    }


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns: tasks, further reported metrics, and `overall` if a row has several tasks."""
    names = [metric for row in rows for metric in row["reported"]]
    names += [task for row in rows for result in row["results"] for task in result["tasks"]]
    several = any(len(result["tasks"]) > 1 for row in rows for result in row["results"])
    columns = [name for name in dict.fromkeys(names) if name != "overall"]
    return [*columns, "overall"] if several or "overall" in names else columns


def _summarise_row(row: Mapping[str, Any], metrics: Sequence[str]) -> dict[str, Any]:
    results: Sequence[RowResult] = row["results"]
    reported = row["reported"]
    ours = {metric: asdict(spread(values)) for metric in metrics if (values := scores(results, metric))}
    return {
        **{key: row[key] for key in ("row", "label", "note", "reported")},
        "ours": ours,
        "difference": {metric: ours[metric]["mean"] - reported[metric] for metric in ours if metric in reported},
        "seeds": [result["seed"] for result in results],
        "seconds": fmean(result["seconds"] for result in results) if results else None,
        "parameters": results[0]["parameters"] if results else None,
    }


def caption(results: Sequence[RowResult]) -> str:
    """Describe what the scores were measured with: encoder, data, rows, formula, seeds, and known contamination."""
    if not results:
        return "Not run."
    encoders = _join(f"{result['encoder']['name']} ({result['encoder']['sha256'][:8]})" for result in results)
    data = _join(result["data"]["variant"] for result in results)
    sets = dict.fromkeys(name for result in results for name in result["rows"])
    sizes = ", ".join(f"{name} {_split_sizes(name, results)}" for name in sets)
    seeds = _range(Counter((result["table"], result["row"]) for result in results).values())
    deviation = "no spread is known" if seeds == "1" else "mean ± standard deviation over them"
    sentences = [
        f"Encoder {encoders}; data {data} (rows of train / dev: {sizes}); "
        f"{seeds} seed{'s' * (seeds != '1')}, {deviation}."
    ]
    formulas = _join(result["formula"] for result in results if len(result["tasks"]) > 1)
    sentences += [f"Overall = {formulas}."] if formulas else []
    sentences.append(f"Computed on {_join(_device(result) for result in results)}.")
    return " ".join([*sentences, *_warnings(results)])


def _warnings(results: Sequence[RowResult]) -> list[str]:
    """Name what limits the scores or the seconds: shared machines, contaminated tasks, smoke runs."""
    found = []
    jobs = max(result.get("jobs", 1) for result in results)
    if jobs > 1:
        found.append(
            f"Up to {jobs} runs at a time: seconds of different rows are not comparable; a run alone takes fewer."
        )
    found += dict.fromkeys(
        f"{encoder} has seen {task} pairs in its own training: its {task} scores are not clean."
        for task, parts in SEEN_BY_ENCODERS.items()
        for result in results
        if task in result["tasks"] and any(part in (encoder := result["encoder"]["name"]).lower() for part in parts)
    )
    if any(result.get("smoke") for result in results):
        found.append("A smoke run of a few steps: the scores mean nothing.")
    return found


def _device(result: RowResult) -> str:
    return f"{result['device']} ({result['precision']})"


def _split_sizes(name: str, results: Sequence[RowResult]) -> str:
    """Return the number of rows of a set, split by split; a range where rows of the table differ."""
    found = [result["rows"][name] for result in results if name in result["rows"]]
    splits = dict.fromkeys(split for sizes in found for split in sizes)
    return " / ".join(_range(sizes[split] for sizes in found if split in sizes) for split in splits)


def _range(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    least, most = found[0], found[-1]
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _join(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))
