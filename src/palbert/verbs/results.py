"""Results: a page of all tables and claims from the results of their rows, whatever has been run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from palbert.errors import DataError, RecipeError
from palbert.evaluation.result_plots import answer_plots, curve_plots
from palbert.evaluation.svg import standalone
from palbert.evaluation.table import Result, markdown, score, summarise
from palbert.evaluation.verdicts import Verdict, judge, together
from palbert.recipe.claims import Claim, Claims, find_claims, load_claims
from palbert.recipe.tables import Table, known_tables, load_table
from palbert.runtime.files import write_text

Rows = Mapping[str, list[Result]]
"""Results by `table:row`."""

HEAD = """# Results

<!-- Written by `palbert results` from results, recipes/*/*.toml and recipes/claims.toml; edit those instead. -->

What three reports measured, and what palbert measures with their settings ([how](guides/reproduce.md)).
Tables and verdicts are computed; what has no results is "not run".
"""
RULE = (
    "A difference is a row's mean over seeds minus another's, with Welch's interval. A claim holds where the whole "
    "interval lies in its range, does not hold where none of it does, and is undecided between. "
    "One seed tells no spread."
)


def results(folders: Sequence[str | Path], *, out: str | Path = "docs/results.md") -> Path:
    """Write a page of all known tables and claims with the results below some folders; return its path."""
    tables = [load_table(path) for _, path in known_tables()]
    claims_file = find_claims()
    if not tables or claims_file is None:
        raise RecipeError("No tables and claims here.", hint="Start it where recipes/ is.")
    claims = load_claims(claims_file)
    found = read_results([Path(folder) for folder in folders])
    path = Path(out)
    sections = [HEAD]
    for setting, rows in (found or {"": {}}).items():
        sections.append(f"## {setting or 'Nothing has been run yet'}\n")
        sections.append(_claims(claims.claims, rows, tables))
        sections += [_table(table, rows) for table in tables]
        sections += _plots(claims, rows, path, setting)
    write_text(path, "\n".join(sections))
    return path


def read_results(folders: Sequence[Path]) -> dict[str, dict[str, list[Result]]]:
    """Read all results below folders, by encoder and data, then by row; smoke runs are left out."""
    found: dict[str, dict[str, list[Result]]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder.", hint="Make results with: palbert reproduce TABLE --out DIR")
        for path in sorted(folder.rglob("seed-*.json")):
            result = json.loads(path.read_text("utf-8"))
            if not result["smoke"]:
                setting = f"{result['encoder']['name']}, data {result['data']['variant']}"
                row = found.setdefault(setting, {}).setdefault(f"{result['table']}:{result['row']}", [])
                row.append(result)
    for rows in found.values():
        for row in rows.values():
            row.sort(key=lambda result: int(result["seed"]))
    return found


def _plots(claims: Claims, rows: Rows, page: Path, setting: str) -> list[str]:
    """Draw the plots whose rows were run into images/ beside the page; the first seed stands for its row."""
    first = {row: results[0] for row, results in rows.items()}
    prefix = "results-" + re.sub(r"[^a-z0-9]+", "-", setting.lower()).strip("-")
    sections = []
    for name, curves in claims.curves.items():
        shown = [first[row] for row in curves.rows if row in first]
        drawn = curve_plots(shown, curves.tasks) if len(shown) == len(curves.rows) else {}
        sections += [_figures(curves.text, f"{prefix}-{name}", drawn, page)] if drawn else []
    for name, answers in claims.answers.items():
        drawn = answer_plots(first[answers.row]) if answers.row in first else {}
        sections += [_figures(answers.text, f"{prefix}-{name}", drawn, page)] if drawn else []
    return sections


def _figures(title: str, prefix: str, drawn: Mapping[str, str], page: Path) -> str:
    lines = [f"### {title}", ""]
    for name, svg in drawn.items():
        file = page.parent / "images" / f"{prefix}-{name}.svg"
        write_text(file, standalone(svg))
        lines.append(f"![{name.replace('-', ' ')}](images/{file.name})")
    return "\n".join([*lines, ""])


def _table(table: Table, rows: Rows) -> str:
    lines = [
        {
            "row": name,
            "label": row.label,
            "note": row.note,
            "reported": row.reported,
            "results": rows.get(f"{table.name}:{name}", []),
        }
        for name, row in table.spec.rows.items()
    ]
    return markdown(summarise(table.name, table.spec.title, table.spec.source, lines), level=3)


def _claims(claims: Mapping[str, Claim], rows: Rows, tables: Sequence[Table]) -> str:
    reported = {f"{table.name}:{name}": row.reported for table in tables for name, row in table.spec.rows.items()}
    lines = [
        "### Claims",
        "",
        "| claim | whose | score | reported | ours, 95 % interval | seeds | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    remarks = []
    for claim in claims.values():
        verdicts = [_judge(claim, other, rows) for other in claim.than]
        cells = [
            [_reported(claim, other, reported) for other in claim.than],
            [_shown(verdict) for verdict in verdicts],
            [" / ".join(map(str, verdict.seeds)) for verdict in verdicts],
        ]
        word = together([verdict.word for verdict in verdicts])
        middle = " | ".join("<br>".join(cell) for cell in cells)
        text = claim.text.replace("|", "∣")
        lines.append(f"| {text} | {claim.report} | {claim.metric} | {middle} | **{word}** |")
        remarks.append(f"- {claim.text} {_measure(claim)} {claim.remark}".rstrip())
    lines += [
        "",
        RULE,
        "",
        *remarks,
        "",
    ]
    return "\n".join(lines)


def _judge(claim: Claim, other: str, rows: Rows) -> Verdict:
    first, second = (
        [value for result in rows.get(row, []) if (value := score(result, claim.metric)) is not None]
        for row in (claim.row, other)
    )
    return judge(first, second, least=claim.least, most=claim.most)


def _reported(claim: Claim, other: str, reported: Mapping[str, Mapping[str, float]]) -> str:
    first, second = reported[claim.row].get(claim.metric), reported[other].get(claim.metric)
    return f"{first - second:+.3f}" if first is not None and second is not None else "–"


def _shown(verdict: Verdict) -> str:
    found = verdict.gap
    if found is None:
        return "–"
    interval = f" ({found.low:+.3f} … {found.high:+.3f})" if found.low is not None else ""
    return f"{found.difference:+.3f}{interval}"


def _measure(claim: Claim) -> str:
    """Say what is computed."""
    others = ", ".join(f"`{row}`" for row in claim.than)
    low = f"at least {claim.least:g}" if claim.least > float("-inf") else ""
    high = f"at most {claim.most:g}" if claim.most < float("inf") else ""
    return f"`{claim.row}` minus {others}: {' and '.join(filter(None, (low, high)))}."
