"""Sections of the results page in words: an overview, the claims, and what sharing an encoder gains or costs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from palbert.reporting.wording import plural
from palbert.reproduction.claims import Claim, Transfer
from palbert.reproduction.markdown import markdown_row
from palbert.reproduction.row_results import ResultsByRow, scores
from palbert.reproduction.seeds import MeanDifference, mean_difference, spread
from palbert.reproduction.verdicts import NEGLIGIBLE, Verdict, judge, worst_outcome

ENOUGH = 3
"""Seeds with which a row competes for the highest score."""
ReportedScores = Mapping[str, Mapping[str, float]]
"""Reported scores by `table:row`, then by metric."""

RULE = (
    "A difference is the mean of one row over seeds minus the mean of another, with Welch's 95 % interval (slightly "
    "wider where its degrees of freedom are not whole). A claim holds if the whole interval lies in the claimed range, "
    "and does not hold if none of it does. Otherwise there is no notable difference if the whole interval lies within "
    f"{NEGLIGIBLE:g} of 0; if it does not, the claim is undecided. One seed gives no interval. Whether the reported "
    "difference lies in the interval is a separate question, answered below too. The intervals cover variation over "
    "seeds only: other dev rows would move the scores as well, and one in twenty intervals may miss by chance."
)
SENTENCES = {
    "holds": "It holds",
    "does not hold": "It does not hold",
    "no difference": "No notable difference",
    "undecided": "Undecided",
    "one seed": "One seed, no verdict",
}


def overview_section(results: Mapping[str, ResultsByRow]) -> list[str]:
    """List every setting with its number of runs and its highest mean over seeds; nothing without results."""
    lines = ["| encoder and data | runs | highest overall | of |", "|---|---|---|---|"]
    for setting, rows in results.items():
        runs = {(result["fingerprint"], result["seed"]) for own in rows.values() for result in own}
        candidates = _comparable_scores(rows)
        best = max(candidates, key=lambda row: spread(candidates[row]).mean, default=None)
        cells = ["–", "–"]
        if best:
            cells = [f"{spread(candidates[best])} ({plural(len(candidates[best]), 'seed')})", f"`{best}`"]
        lines.append(markdown_row([f"[{setting}](#{_anchor(setting)})", str(len(runs)), *cells]))
    return ["\n".join([*lines, ""])] if results else []


def _comparable_scores(rows: ResultsByRow) -> dict[str, list[float]]:
    """Return the overall scores of the rows with the most common formula and enough seeds.

    Scores by other formulas are not comparable, and the luckiest of many single runs is not the best model: three
    seeds are enough, or the most that any row has.
    """
    found = {row: values for row in rows if (values := scores(rows[row], "overall"))}
    formulas = Counter(rows[row][0]["formula"] for row in found)
    found = {row: found[row] for row in found if rows[row][0]["formula"] == formulas.most_common(1)[0][0]}
    enough = min(ENOUGH, max(map(len, found.values()), default=0))
    return {row: values for row, values in found.items() if len(values) >= enough}


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def claims_section(claims: Mapping[str, Claim], rows: ResultsByRow, reported: ReportedScores) -> list[str]:
    """Judge every claim whose rows were run and name the others; nothing if none was run."""
    verdicts = {name: [_judge(claim, other, rows) for other in claim.than] for name, claim in claims.items()}
    outcomes = {name: worst_outcome([verdict.outcome for verdict in own]) for name, own in verdicts.items()}
    run = [name for name, outcome in outcomes.items() if outcome != "not run"]
    if not run:
        return []
    lines = ["### The reports' claims, and what is found here", "", RULE, ""]
    lines += ["| claim | source | reported | found here | |", "|---|---|---|---|---|"]
    for name in run:
        claim = claims[name]
        differences = [_reported_difference(claim, other, reported) for other in claim.than]
        theirs = "; ".join(f"{each:+.3f}" for each in differences if each is not None) or "–"
        ours = "; ".join(str(verdict.difference or "–") for verdict in verdicts[name])
        lines.append(markdown_row([claim.text, claim.report, theirs, ours, f"**{outcomes[name]}**"]))
    for name in run:
        lines += ["", _claim_paragraph(claims[name], verdicts[name], SENTENCES[outcomes[name]], reported)]
    others = [claims[name].text for name in claims if name not in run]
    lines += ["", f"Not run with this encoder and data: {' '.join(others)}"] if others else []
    return ["\n".join([*lines, ""])]


def _claim_paragraph(claim: Claim, verdicts: Sequence[Verdict], outcome: str, reported: ReportedScores) -> str:
    """Say whether a claim holds, by how much, with how many seeds, and what was reported."""
    found = []
    for other, verdict in zip(claim.than, verdicts, strict=True):
        if verdict.difference:
            comparison = _against_report(verdict.difference, _reported_difference(claim, other, reported))
            found.append(f"{verdict.difference} compared with `{other}` ({_seeds(verdict)}{comparison})")
    measured = f"{claim.metric} of `{claim.row}` is {'; '.join(found)}"
    nonzero = [each.difference and each.outcome == "undecided" and each.difference.excludes(0) for each in verdicts]
    measured += ", so there is a difference" if any(nonzero) else ""
    return f"**{claim.text}** {outcome}: {measured}. Required: {_required(claim)}. {claim.remark}".rstrip()


def _required(claim: Claim) -> str:
    low = f"at least {claim.least:+g}" if claim.least > -math.inf else ""
    high = f"at most {claim.most:+g}" if claim.most < math.inf else ""
    return " and ".join(filter(None, (low, high)))


def _judge(claim: Claim, other: str, rows: ResultsByRow) -> Verdict:
    first, second = (scores(rows.get(row, ()), claim.metric) for row in (claim.row, other))
    return judge(first, second, least=claim.least, most=claim.most)


def _seeds(verdict: Verdict) -> str:
    first, second = verdict.seeds
    return plural(first, "seed") if first == second else f"{first} and {second} seeds"


def _reported_difference(claim: Claim, other: str, reported: ReportedScores) -> float | None:
    first, second = reported[claim.row].get(claim.metric), reported[other].get(claim.metric)
    return first - second if first is not None and second is not None else None


def _against_report(found: MeanDifference, reported: float | None) -> str:
    """Name the reported difference, and say if it lies outside the interval."""
    if reported is None:
        return ""
    return f"; reported {reported:+.3f}" + (", outside the interval" if found.excludes(reported) else "")


def transfer_sections(transfers: Mapping[str, Transfer], rows: ResultsByRow) -> list[str]:
    """Compare each task alone with the shared encoder, and warn where a task loses; nothing without runs."""
    return [section for transfer in transfers.values() if (section := _transfer_section(transfer, rows))]


def _transfer_section(transfer: Transfer, rows: ResultsByRow) -> str:
    lines, losses = [], []
    for task, row in transfer.alone.items():
        alone, shared = (scores(rows.get(each, ()), task) for each in (row, transfer.shared))
        if not alone or not shared:
            continue
        difference = mean_difference(shared, alone)
        effect = _effect(difference)
        lines.append(f"| {task} | {spread(alone)} | {spread(shared)} | {difference} | {effect} |")
        losses += [f"{task} ({difference})"] if effect == "**loses**" else []
    if not lines:
        return ""
    head = ["| task | alone | shared | shared minus alone | |", "|---|---|---|---|---|"]
    text = [f"### {transfer.text}", "", *head, *lines]
    text += ["", f"Shared: `{transfer.shared}`. {transfer.remark}".rstrip(), ""]
    text += [f"**Warning: sharing costs {', '.join(losses)}.**", ""] if losses else []
    return "\n".join(text)


def _effect(difference: MeanDifference) -> str:
    if difference.low is None or difference.high is None:
        return "no spread known"
    return "gains" if difference.low > 0 else "**loses**" if difference.high < 0 else "no difference seen"
