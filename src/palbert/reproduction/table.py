"""Tables of results: reported scores beside ours, over seeds, as values and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from palbert.reproduction.seeds import spread
from palbert.tasks.catalog import SEEN_BY_ENCODERS

Result = dict[str, Any]
"""What a row gave with one seed, as its JSON holds it."""


def score(result: Result, metric: str) -> float | None:
    """Return a score of a result: `overall`, `sst` for a task's first metric, or `quora.f1`; None if it has none."""
    if metric == "overall":
        return float(result["overall"]) if len(result["tasks"]) > 1 else None
    task, _, name = metric.partition(".")
    scores = result["tasks"].get(task, {})
    found = scores.get(name or result["metrics"].get(task))
    return None if found is None else float(found)


def scores_of(result: Result) -> list[str]:
    """Return the names of all scores that a result has."""
    tasks = {task: list(scores) for task, scores in result["tasks"].items()}
    named = [*tasks, *(f"{task}.{metric}" for task, metrics in tasks.items() for metric in metrics)]
    return ["overall", *named] if len(tasks) > 1 else named


def summarise(name: str, title: str, source: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make a table of rows, each with its name, label, note, reported scores and results by seed."""
    metrics = _metrics(rows)
    results = [result for row in rows for result in row["results"]]
    return {
        "table": name,
        "title": title,
        "source": source,
        "caption": caption(results),
        "metrics": metrics,
        "rows": [_summary(row, metrics) for row in rows],
    }


def _metrics(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns: tasks, further metrics that are reported, and overall where there are several tasks."""
    named = [metric for row in rows for metric in row["reported"]]
    named += [task for row in rows for result in row["results"] for task in result["tasks"]]
    several = any(len(result["tasks"]) > 1 for row in rows for result in row["results"])
    ordered = [metric for metric in dict.fromkeys(named) if metric != "overall"]
    return [*ordered, "overall"] if several or "overall" in named else ordered


def _summary(row: Mapping[str, Any], metrics: Sequence[str]) -> dict[str, Any]:
    results: Sequence[Result] = row["results"]
    reported = row["reported"]
    ours = {}
    for metric in metrics:
        values = [value for result in results if (value := score(result, metric)) is not None]
        if values:
            ours[metric] = asdict(spread(values))
    shared = [metric for metric in metrics if metric in ours and metric in reported]
    return {
        **{key: row[key] for key in ("row", "label", "note", "reported")},
        "ours": ours,
        "difference": {metric: ours[metric]["mean"] - reported[metric] for metric in shared},
        "seeds": [result["seed"] for result in results],
        "seconds": fmean(result["seconds"] for result in results) if results else None,
        "parameters": results[0]["parameters"] if results else None,
    }


def caption(results: Sequence[Result]) -> str:
    """Say what the scores were measured with: encoder, data, rows, formula, seeds, and what is not clean about them."""
    if not results:
        return "Not run."
    encoders = _listed(f"{result['encoder']['name']} ({result['encoder']['sha256'][:8]})" for result in results)
    data = _listed(result["data"]["variant"] for result in results)
    sets = dict.fromkeys(name for result in results for name in result["rows"])
    counted = ", ".join(f"{name} {_counted(name, results)}" for name in sets)
    formulas = _listed(result["formula"] for result in results if len(result["tasks"]) > 1)
    seeds = _range(Counter((result["table"], result["row"]) for result in results).values())
    several = "no spread is known" if seeds == "1" else "mean ± standard deviation over them"
    lines = [
        f"Encoder {encoders}; data {data} (rows of train / dev: {counted}); "
        f"{seeds} seed{'s' * (seeds != '1')}, {several}."
    ]
    lines += [f"Overall = {formulas}."] if formulas else []
    lines.append(f"Computed on {_listed(f'''{result['device']} ({result['precision']})''' for result in results)}.")
    jobs = max(result.get("jobs", 1) for result in results)
    if jobs > 1:
        lines.append(f"Up to {jobs} runs at a time: seconds of different rows say little, and one alone takes fewer.")
    lines += _unclean(results)
    if any(result.get("smoke") for result in results):
        lines.append("A smoke run of a few steps: the scores mean nothing.")
    return " ".join(lines)


def _counted(name: str, results: Sequence[Result]) -> str:
    """Write the rows of a set, split by split; from the fewest to the most, where rows of the table differ."""
    found = [result["rows"][name] for result in results if name in result["rows"]]
    splits = dict.fromkeys(split for counts in found for split in counts)
    return " / ".join(_range(counts[split] for counts in found if split in counts) for split in splits)


def _range(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    least, most = found[0], found[-1]
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _unclean(results: Sequence[Result]) -> list[str]:
    found = [
        f"{encoder} has seen {task} pairs in its own training: its {task} scores are not clean."
        for task, parts in SEEN_BY_ENCODERS.items()
        for result in results
        if task in result["tasks"] and any(part in (encoder := result["encoder"]["name"]).lower() for part in parts)
    ]
    return list(dict.fromkeys(found))


def _listed(values: Any) -> str:
    return ", ".join(dict.fromkeys(values))


def markdown(table: Mapping[str, Any], *, level: int = 1) -> str:
    """Write a table as Markdown: ours, what was reported, and the difference in one cell for each metric."""
    metrics = table["metrics"]
    lines = [f"{'#' * level} {table['title']}", ""]
    lines += [f"{table['source']}.", ""] if table["source"] else []
    lines += [line(["", *metrics, "seconds", "parameters (trained)", "seeds"]), line(["---"] * (len(metrics) + 4))]
    for row in table["rows"]:
        cells = [_cell(row, metric) for metric in metrics]
        counts = row["parameters"]
        shown = f"{counts['total']:,} ({counts['trained']:,})" if counts else "–"
        seconds = f"{row['seconds']:,.0f}" if row["seconds"] is not None else "–"
        lines.append(line([row["label"], *cells, seconds, shown, str(len(row["seeds"]) or "not run")]))
    reported = any(row["reported"] for row in table["rows"])
    lines += ["", "A cell: ours; what the report has, and ours minus that."] if reported else []
    lines += ["", table["caption"]]
    notes = [f"- {row['label']}: {row['note']}" for row in table["rows"] if row["note"]]
    lines += ["", *notes] if notes else []
    return "\n".join(lines) + "\n"


def line(cells: Sequence[str]) -> str:
    """Write a row of a Markdown table; bars inside of a cell become others."""
    return f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |"


def _cell(row: Mapping[str, Any], metric: str) -> str:
    ours, reported = row["ours"].get(metric), row["reported"].get(metric)
    parts = []
    if ours:
        spread_text = f" ± {ours['deviation']:.3f}" if ours["deviation"] is not None else ""
        parts.append(f"{ours['mean']:.3f}{spread_text}")
    if reported is not None:
        difference = f" ({row['difference'][metric]:+.3f})" if ours else ""
        parts.append(f"reported {reported:.3f}{difference}")
    return "; ".join(parts) or "–"
