"""Row results: the JSON files that a table's rows leave, one per row and seed, and the scores in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palbert.errors import DataError, RunFolderError
from palbert.runtime.json_objects import parse_json

RowResult = dict[str, Any]
"""The result of one row with one seed, as its JSON file holds it."""
ResultsByRow = Mapping[str, Sequence[RowResult]]
"""The results of several rows, one per seed, by `table:row`."""

REQUIRED = {"table", "row", "seed", "fingerprint", "smoke"}


def read_row_result(path: Path) -> RowResult:
    """Read the result of one row and seed."""
    try:
        found: Any = parse_json(path.read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= REQUIRED:
        raise RunFolderError(f"{path}: not the result of a row.", hint="Remove it; palbert reproduce makes it again.")
    return found


def read_row(folder: Path) -> list[RowResult]:
    """Read the results of one row, in the order of seeds."""
    return _by_seed([read_row_result(path) for path in folder.glob("seed-*.json")])


def read_folders(folders: Sequence[Path]) -> dict[str, dict[str, list[RowResult]]]:
    """Read all results below some folders, by encoder and data, then by `table:row`; smoke runs are skipped.

    A run that occurs twice counts once. Runs of one row with different settings are refused: their mean means nothing.
    """
    found: dict[str, dict[str, list[RowResult]]] = {}
    first_of: dict[tuple[str, str], tuple[str, Path]] = {}
    for path, result in _read_below(folders):
        setting = f"{result['encoder']['name']}, data {result['data']['variant']}"
        name, fingerprint = f"{result['table']}:{result['row']}", result["fingerprint"]
        other, first = first_of.setdefault((setting, name), (fingerprint, path))
        if other != fingerprint:
            raise DataError(
                f"{path}: made with other settings, data or weights than {first}, for the same row.",
                hint="Remove one of them, or give one folder only.",
            )
        row = found.setdefault(setting, {}).setdefault(name, [])
        if result["seed"] not in [known["seed"] for known in row]:
            row.append(result)
    return {setting: {name: _by_seed(row) for name, row in rows.items()} for setting, rows in found.items()}


def _read_below(folders: Sequence[Path]) -> list[tuple[Path, RowResult]]:
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder.", hint="Make results with: palbert reproduce TABLE --out DIR")
        found += [(path, read_row_result(path)) for path in sorted(folder.rglob("seed-*.json"))]
    return [(path, result) for path, result in found if not result["smoke"]]


def _by_seed(results: Sequence[RowResult]) -> list[RowResult]:
    return sorted(results, key=lambda result: int(result["seed"]))


def score(result: RowResult, metric: str) -> float | None:
    """Return a score: `overall`, `sst` for a task's first metric, or `quora.f1`; None if the result lacks it."""
    if metric == "overall":
        return float(result["overall"]) if len(result["tasks"]) > 1 else None
    task, _, name = metric.partition(".")
    found = result["tasks"].get(task, {}).get(name or result["metrics"].get(task))
    return None if found is None else float(found)


def scores(results: Sequence[RowResult], metric: str) -> list[float]:
    """Return the score of every seed that has it."""
    return [value for result in results if (value := score(result, metric)) is not None]


def score_names(result: RowResult) -> list[str]:
    """Return the names of all scores in a result."""
    tasks = {task: list(metrics) for task, metrics in result["tasks"].items()}
    names = [*tasks, *(f"{task}.{metric}" for task, metrics in tasks.items() for metric in metrics)]
    return ["overall", *names] if len(tasks) > 1 else names
