"""Results in words: what claims come to, and what sharing an encoder gains or costs, as Markdown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from palbert.reporting.wording import plural
from palbert.reproduction.claims import Claim, Transfer
from palbert.reproduction.seeds import Gap, gap, spread
from palbert.reproduction.table import Result, line, score
from palbert.reproduction.verdicts import SMALL, Verdict, judge, together

Rows = Mapping[str, Sequence[Result]]
"""Results by `table:row`."""
Reported = Mapping[str, Mapping[str, float]]
"""Reported scores by `table:row`."""

RULE = (
    "A difference is a row's mean over seeds minus another's, with Welch's 95 % interval or a little more. A claim "
    "holds where the whole interval lies in its range and does not where none of it does. Between, no difference to "
    f"speak of is found where the whole interval is within {SMALL:g} of 0; otherwise it is undecided. One seed tells "
    "no spread. Whether the reported difference lies in the interval is another question, and said too. The intervals "
    "are about seeds: other dev rows would move scores as well, and of twenty such intervals one may miss by chance."
)
HEAD_OF_TRANSFER = ("| task | alone | shared | shared minus alone | |", "|---|---|---|---|---|")
SAYS = {
    "holds": "It holds",
    "does not hold": "It does not hold",
    "no difference": "No difference to speak of",
    "undecided": "Undecided",
    "one seed": "One seed, no verdict",
}


def overview_text(found: Mapping[str, Rows]) -> list[str]:
    """Write what there is for every setting, with its highest mean over seeds; nothing without results."""
    lines = ["| encoder and data | runs | highest overall | of |", "|---|---|---|---|"]
    for setting, rows in found.items():
        runs = {(result["fingerprint"], result["seed"]) for results in rows.values() for result in results}
        scores = _comparable(rows)
        best = max(scores, key=lambda row: spread(scores[row]).mean, default=None)
        shown = [f"{_spread(scores[best])} ({plural(len(scores[best]), 'seed')})", f"`{best}`"] if best else ["–", "–"]
        lines.append(line([f"[{setting}](#{_anchor(setting)})", str(len(runs)), *shown]))
    return ["\n".join([*lines, ""])] if found else []


def _comparable(rows: Rows) -> dict[str, list[float]]:
    """Return the overall scores of rows of the most common formula that have as many seeds as any.

    Scores by other formulas mean something else, and the luckiest of many single runs is no best model.
    """
    scores = {row: values for row in rows if (values := _scores(rows, row, "overall"))}
    formulas = Counter(rows[row][0]["formula"] for row in scores)
    scores = {row: scores[row] for row in scores if rows[row][0]["formula"] == formulas.most_common(1)[0][0]}
    most = max(map(len, scores.values()), default=0)
    return {row: values for row, values in scores.items() if len(values) == most}


def _anchor(heading: str) -> str:
    """Return where a heading is found in its page, as GitHub names it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def claims_text(claims: Mapping[str, Claim], rows: Rows, reported: Reported) -> list[str]:
    """Write a paragraph on every claim whose rows were run; the others are named. Nothing where none was."""
    judged = {name: [_judge(claim, other, rows) for other in claim.than] for name, claim in claims.items()}
    words = {name: together([verdict.word for verdict in verdicts]) for name, verdicts in judged.items()}
    run = [name for name, word in words.items() if word != "not run"]
    if not run:
        return []
    lines = ["### What the reports say, and what is found here", "", RULE, ""]
    lines += ["| claim | whose | reported | found here | |", "|---|---|---|---|---|"]
    for name in run:
        claim = claims[name]
        differences = [_reported(claim, other, reported) for other in claim.than]
        theirs = "; ".join(f"{each:+.3f}" for each in differences if each is not None) or "–"
        ours = "; ".join(shown(verdict.gap) for verdict in judged[name])
        lines.append(line([claim.text, claim.report, theirs, ours, f"**{words[name]}**"]))
    for name in run:
        lines += ["", _paragraph(claims[name], judged[name], SAYS[words[name]], reported)]
    others = [claims[name].text for name in claims if name not in run]
    lines += ["", f"Not run with this encoder and data: {' '.join(others)}"] if others else []
    return ["\n".join([*lines, ""])]


def _paragraph(claim: Claim, verdicts: Sequence[Verdict], word: str, reported: Reported) -> str:
    """Say of a claim whether it holds, by how much, with how many seeds, and what the report has."""
    found = []
    for other, verdict in zip(claim.than, verdicts, strict=True):
        if verdict.gap:
            beside = _beside(verdict.gap, _reported(claim, other, reported))
            found.append(f"{shown(verdict.gap)} against `{other}` ({_seeds(verdict)}{beside})")
    measured = f"{claim.metric} of `{claim.row}` is {'; '.join(found)}"
    differs = any(verdict.gap and verdict.word == "undecided" and verdict.gap.excludes(0) for verdict in verdicts)
    measured += ", so there is a difference" if differs else ""
    return f"**{claim.text}** {word}: {measured}. It would have to be {_range(claim)}. {claim.remark}".rstrip()


def _range(claim: Claim) -> str:
    low = f"at least {claim.least:+g}" if claim.least > -math.inf else ""
    high = f"at most {claim.most:+g}" if claim.most < math.inf else ""
    return " and ".join(filter(None, (low, high)))


def transfer_text(transfers: Mapping[str, Transfer], rows: Rows) -> list[str]:
    """Write what sharing gains or costs each task, with a warning where one loses; nothing without runs to compare."""
    sections = []
    for transfer in transfers.values():
        lines, losses = [], []
        for task, row in transfer.alone.items():
            alone, shared = _scores(rows, row, task), _scores(rows, transfer.shared, task)
            if not alone or not shared:
                continue
            found = gap(shared, alone)
            verdict = _verdict(found)
            lines.append(f"| {task} | {_spread(alone)} | {_spread(shared)} | {shown(found)} | {verdict} |")
            losses += [f"{task} ({shown(found)})"] if verdict == "**loses**" else []
        if lines:
            text = [f"### {transfer.text}", "", *HEAD_OF_TRANSFER, *lines]
            text += ["", f"Shared: `{transfer.shared}`. {transfer.remark}".rstrip(), ""]
            text += [f"**Warning: sharing costs {', '.join(losses)}.**", ""] if losses else []
            sections.append("\n".join(text))
    return sections


def shown(found: Gap | None) -> str:
    """Write a difference with its interval."""
    if found is None:
        return "–"
    interval = f" ({found.low:+.3f} … {found.high:+.3f})" if found.low is not None else ""
    return f"{found.difference:+.3f}{interval}"


def _verdict(found: Gap) -> str:
    if found.low is None or found.high is None:
        return "no spread known"
    return "gains" if found.low > 0 else "**loses**" if found.high < 0 else "no difference seen"


def _spread(values: Sequence[float]) -> str:
    of = spread(values)
    return f"{of.mean:.3f}" + (f" ± {of.deviation:.3f}" if of.deviation is not None else "")


def _scores(rows: Rows, row: str, metric: str) -> list[float]:
    return [value for result in rows.get(row, ()) if (value := score(result, metric)) is not None]


def _judge(claim: Claim, other: str, rows: Rows) -> Verdict:
    first, second = (_scores(rows, row, claim.metric) for row in (claim.row, other))
    return judge(first, second, least=claim.least, most=claim.most)


def _seeds(verdict: Verdict) -> str:
    first, second = verdict.seeds
    return plural(first, "seed") if first == second else f"{first} and {second} seeds"


def _reported(claim: Claim, other: str, reported: Reported) -> float | None:
    first, second = reported[claim.row].get(claim.metric), reported[other].get(claim.metric)
    return first - second if first is not None and second is not None else None


def _beside(found: Gap, reported: float | None) -> str:
    """Name the reported difference, and say where it lies outside of the interval."""
    if reported is None:
        return ""
    return f"; reported {reported:+.3f}" + (", which lies outside" if found.excludes(reported) else "")
