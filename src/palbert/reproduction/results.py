"""Results: a page of tables, claims, transfer and plots from the results of rows, whatever has been run."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palbert.errors import DataError, RecipeError, RunFolderError, did_you_mean
from palbert.reporting.svg import standalone
from palbert.reproduction.claims import Claims, find_claims, load_claims
from palbert.reproduction.reproduce import read_result, table_summary
from palbert.reproduction.result_plots import answer_plots, curve_plots, label_plot, score_plot
from palbert.reproduction.results_text import claims_text, overview_text, transfer_text
from palbert.reproduction.table import Result, markdown, scores_of, summarise
from palbert.reproduction.tables import Table, known_tables, load_table
from palbert.runtime.files import write_text

log = logging.getLogger(__name__)

Rows = Mapping[str, list[Result]]
"""Results by `table:row`."""

HEAD = """# Results

<!-- Written by `palbert results` from results, recipes/*/*.toml and recipes/claims.toml; edit those instead. -->
"""
MARK = "<!-- Written by `palbert results`"


def results(folders: Sequence[str | Path], *, out: str | Path = "results.md") -> Path:
    """Write a page of all known tables and claims with the results below some folders; return its path."""
    tables = [load_table(path) for _, path in known_tables()]
    claims_file = find_claims()
    if not tables or claims_file is None:
        raise RecipeError("No tables and claims here.", hint="Start it where recipes/ is.")
    claims = load_claims(claims_file)
    folders = [folders] if isinstance(folders, str | Path) else folders
    found = read_results([Path(folder) for folder in folders])
    if not found:
        log.warning("No results in %s; those of smoke runs do not count.", ", ".join(map(str, folders)))
    path = Path(out)
    if path.is_file() and MARK not in path.read_text("utf-8", errors="replace"):
        raise RunFolderError(f"{path}: holds something else than results.", hint="Give another file with --out.")
    _check_claims(claims, claims_file, found)
    reported = {f"{table.name}:{name}": row.reported for table in tables for name, row in table.spec.rows.items()}
    found = dict(sorted(found.items(), key=lambda item: (not _has_own(item[1]), item[0])))
    sections = [HEAD, *([f"{claims.intro.strip()}\n"] if claims.intro else []), *overview_text(found)]
    for setting, rows in found.items():
        sections.append(f"## {setting}\n")
        variant = next(iter(rows.values()))[0]["data"]["variant"]
        sections += [f"{claims.data[variant]}\n"] if variant in claims.data else []
        sections += claims_text(claims.claims, rows, reported)
        sections += transfer_text(claims.transfer, rows)
        sections += [markdown(table_summary(table, own), level=3) for table in tables if (own := _results(table, rows))]
        sections += [markdown(summary, level=3) for summary in _other_tables(tables, rows)]
        sections += _plots(claims, rows, path, setting)
    missing = [table for table in tables if not any(_results(table, rows) for rows in found.values())]
    if missing:
        sections.append("## Not run yet\n")
        sections.append("\n".join(f"- `{table.name}`: {table.spec.title}" for table in missing) + "\n")
    write_text(path, "\n".join(sections))
    return path


def _check_claims(claims: Claims, path: Path, found: Mapping[str, Rows]) -> None:
    """Refuse claims about scores, losses or labels that the results of their rows do not have."""
    wanted = [
        *(
            (f"claims.{name}.metric", (each.row, *each.than), (each.metric,), scores_of)
            for name, each in claims.claims.items()
        ),
        *((f"scores.{name}.metrics", each.rows, each.metrics, scores_of) for name, each in claims.scores.items()),
        *((f"curves.{name}.tasks", each.rows, each.tasks, _losses_of) for name, each in claims.curves.items()),
        *((f"labels.{name}.task", (each.row,), (each.task,), _labels_of) for name, each in claims.labels.items()),
        *(
            (f"transfer.{name}.alone", (row, each.shared), (task,), scores_of)
            for name, each in claims.transfer.items()
            for task, row in each.alone.items()
        ),
    ]
    for place, rows, names, known_of in wanted:
        for results in (own[row] for own in found.values() for row in rows if row in own):
            known = known_of(results[0])
            for name in names:
                if name not in known:
                    where = f"{results[0]['table']}:{results[0]['row']}"
                    raise RecipeError(f"{path}: {place}: no '{name}' in {where}.", hint=did_you_mean(name, known))


def _losses_of(result: Result) -> list[str]:
    return list(result["losses"])


def _labels_of(result: Result) -> list[str]:
    return list(result["labels"])


def read_results(folders: Sequence[Path]) -> dict[str, dict[str, list[Result]]]:
    """Read all results below folders, by encoder and data, then by row; smoke runs are left out.

    A run that is there twice counts once. Runs of one row with other settings are refused: their mean says nothing.
    """
    found: dict[str, dict[str, list[Result]]] = {}
    places: dict[tuple[str, str], tuple[str, Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder.", hint="Make results with: palbert reproduce TABLE --out DIR")
        for path in sorted(folder.rglob("seed-*.json")):
            result = read_result(path)
            if not result["smoke"]:
                setting = f"{result['encoder']['name']}, data {result['data']['variant']}"
                name, own = f"{result['table']}:{result['row']}", result["fingerprint"]
                other, first = places.setdefault((setting, name), (own, path))
                if other != own:
                    raise DataError(
                        f"{path}: made with other settings, data or weights than {first}, for the same row.",
                        hint="Remove one of them, or give one folder only.",
                    )
                row = found.setdefault(setting, {}).setdefault(name, [])
                if result["seed"] not in [former["seed"] for former in row]:
                    row.append(result)
    for rows in found.values():
        for row in rows.values():
            row.sort(key=lambda result: int(result["seed"]))
    return found


def _has_own(rows: Rows) -> bool:
    """Whether recipes of our own are among the rows: their scores come first."""
    return any(row.startswith("best/") for row in rows)


def _results(table: Table, rows: Rows) -> dict[str, list[Result]]:
    """Return the results of a table's rows, of those that were run."""
    return {name: rows[place] for name in table.spec.rows if (place := f"{table.name}:{name}") in rows}


def _other_tables(tables: Sequence[Table], rows: Rows) -> list[dict[str, Any]]:
    """Make tables of results whose own file is not among the known ones, from what each result says of its row."""
    known = {table.name for table in tables}
    found: dict[str, list[dict[str, Any]]] = {}
    for results in rows.values():
        first = results[0]
        if first["table"] not in known:
            row = {**{key: first[key] for key in ("row", "label", "reported")}, "note": "", "results": results}
            found.setdefault(first["table"], []).append(row)
    return [summarise(name, name, "", own) for name, own in found.items()]


def _plots(claims: Claims, rows: Rows, page: Path, setting: str) -> list[str]:
    """Draw the plots whose rows were run into images/ beside the page; all but scores are those of the first seed."""
    first = {row: results[0] for row, results in rows.items()}
    prefix = f"{page.stem}-" + re.sub(r"[^a-z0-9]+", "-", setting.lower()).strip("-")
    drawn: list[tuple[str, str, dict[str, str]]] = []
    for name, curves in claims.curves.items():
        if all(row in first for row in curves.rows):
            drawn.append((name, curves.text, curve_plots([first[row] for row in curves.rows], curves.tasks)))
    for name, scores in claims.scores.items():
        if all(row in rows for row in scores.rows):
            drawn.append((name, scores.text, score_plot([rows[row] for row in scores.rows], scores.metrics)))
    for name, labels in claims.labels.items():
        if labels.row in first:
            drawn.append((name, labels.text, label_plot(first[labels.row], labels.task)))
    for name, answers in claims.answers.items():
        if answers.row in first:
            drawn.append((name, answers.text, answer_plots(first[answers.row])))
    return [_figures(text, f"{prefix}-{name}", plots, page) for name, text, plots in drawn if plots]


def _figures(title: str, prefix: str, drawn: Mapping[str, str], page: Path) -> str:
    lines = [f"### {title}", ""]
    for name, svg in drawn.items():
        file = page.parent / "images" / f"{prefix}-{name}.svg"
        write_text(file, standalone(svg))
        lines.append(f"![{name.replace('-', ' ')}](images/{file.name})")
    return "\n".join([*lines, ""])
