"""The results page: all tables, verdicts on claims, transfer and plots, from the results of whatever was run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from palbert.errors import RecipeError, RunFolderError, did_you_mean
from palbert.reproduction.claims import Claims, find_claims, load_claims
from palbert.reproduction.markdown import table_markdown
from palbert.reproduction.results_plots import plot_sections
from palbert.reproduction.results_sections import claims_section, overview_section, transfer_sections
from palbert.reproduction.row_results import ResultsByRow, RowResult, read_folders, score_names
from palbert.reproduction.summaries import TableSummary, summarise, summarise_table
from palbert.reproduction.tables import Table, known_tables, load_table
from palbert.runtime.files import write_text

log = logging.getLogger(__name__)

MARK = "<!-- Written by `palbert results`"
HEAD = f"# Results\n\n{MARK} from results, recipes/*/*.toml and recipes/claims.toml; edit those instead. -->\n"


def results(folders: Sequence[str | Path], *, out: str | Path = "results.md") -> Path:
    """Write a page of all known tables and claims with the results below some folders; return its path."""
    tables = [load_table(path) for _, path in known_tables()]
    claims_file = find_claims()
    if not tables or claims_file is None:
        raise RecipeError("No tables and claims here.", hint="Start it in the folder that holds recipes/.")
    claims = load_claims(claims_file)
    folders = [folders] if isinstance(folders, str | Path) else folders
    found = read_folders([Path(folder) for folder in folders])
    if not found:
        log.warning("No results in %s; smoke runs do not count.", ", ".join(map(str, folders)))
    path = Path(out)
    if path.is_file() and MARK not in path.read_text("utf-8", errors="replace"):
        raise RunFolderError(f"{path}: is not a results page.", hint="Give another file with --out.")
    _check_names(claims, claims_file, found)
    found = dict(sorted(found.items(), key=lambda item: (not _has_own_recipes(item[1]), item[0])))
    sections = [HEAD, *([f"{claims.intro.strip()}\n"] if claims.intro else []), *overview_section(found)]
    for setting, rows in found.items():
        sections += _setting_sections(setting, rows, tables, claims, path)
    write_text(path, "\n".join([*sections, *_missing_section(tables, found)]))
    return path


def _setting_sections(
    setting: str, rows: ResultsByRow, tables: Sequence[Table], claims: Claims, path: Path
) -> list[str]:
    """Write everything about one encoder and data."""
    reported = {f"{table.name}:{name}": row.reported for table in tables for name, row in table.spec.rows.items()}
    variant = next(iter(rows.values()))[0]["data"]["variant"]
    summaries = [summarise_table(table, own) for table in tables if (own := _results_of(table, rows))]
    summaries += _unknown_tables(tables, rows)
    return [
        f"## {setting}\n",
        *([f"{claims.data[variant]}\n"] if variant in claims.data else []),
        *claims_section(claims.claims, rows, reported),
        *transfer_sections(claims.transfer, rows),
        *(table_markdown(summary, level=3) for summary in summaries),
        *plot_sections(claims, rows, path, setting),
    ]


def _missing_section(tables: Sequence[Table], found: Mapping[str, ResultsByRow]) -> list[str]:
    missing = [table for table in tables if not any(_results_of(table, rows) for rows in found.values())]
    lines = [f"- `{table.name}`: {table.spec.title}" for table in missing]
    return ["## Not run yet\n", "\n".join(lines) + "\n"] if missing else []


def _check_names(claims: Claims, path: Path, found: Mapping[str, ResultsByRow]) -> None:
    """Refuse claims about scores, losses or labels that the results of their rows do not have, all together."""
    problems = []
    for place, rows, names, known_names in _names_in(claims):
        for result in (own[row][0] for own in found.values() for row in rows if row in own):
            known = known_names(result)
            problems += [
                f"{path}: {place}: no '{name}' in {result['table']}:{result['row']}. {did_you_mean(name, known)}"
                for name in names
                if name not in known
            ]
    if problems:
        raise RecipeError("\n".join(dict.fromkeys(problems)))


def _names_in(claims: Claims) -> Iterator[tuple[str, Sequence[str], Sequence[str], Callable[[RowResult], list[str]]]]:
    """Yield each place that names parts of results: the place, its rows, the names, and how to find the known ones."""
    for name, claim in claims.claims.items():
        yield f"claims.{name}.metric", (claim.row, *claim.than), (claim.metric,), score_names
    for name, scores in claims.scores.items():
        yield f"scores.{name}.metrics", scores.rows, scores.metrics, score_names
    for name, curves in claims.curves.items():
        yield f"curves.{name}.tasks", curves.rows, curves.tasks, lambda result: list(result["losses"])
    for name, labels in claims.labels.items():
        yield f"labels.{name}.task", (labels.row,), (labels.task,), lambda result: list(result["labels"])
    for name, transfer in claims.transfer.items():
        for task, row in transfer.alone.items():
            yield f"transfer.{name}.alone", (row, transfer.shared), (task,), score_names


def _has_own_recipes(rows: ResultsByRow) -> bool:
    """Whether palbert's own recipes are among the rows: their scores come first."""
    return any(row.startswith("best/") for row in rows)


def _results_of(table: Table, rows: ResultsByRow) -> dict[str, Sequence[RowResult]]:
    """Return the results of those rows of a table that were run, by the name of the row."""
    return {name: rows[place] for name in table.spec.rows if (place := f"{table.name}:{name}") in rows}


def _unknown_tables(tables: Sequence[Table], rows: ResultsByRow) -> list[TableSummary]:
    """Summarise results whose table has no known file, from what each result says about its row."""
    known = {table.name for table in tables}
    found: dict[str, list[dict[str, object]]] = {}
    for results in rows.values():
        first = results[0]
        if first["table"] not in known:
            row = {**{key: first[key] for key in ("row", "label", "reported")}, "note": "", "results": results}
            found.setdefault(first["table"], []).append(row)
    return [summarise(name, name, "", own) for name, own in found.items()]
