"""The audit of bias as a page, as a section of the run's report, and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from palbert.reporting.display import ROWS, Table
from palbert.reporting.page import render
from palbert.reporting.wording import plural

BEGIN, END = "<!-- bias: begin -->", "<!-- bias: end -->"
"""What is between them in a report is replaced by the next audit."""
LIMITS = (
    "An answer that changes with the group shows a difference in treatment; no change found is no proof of fairness: "
    "only these groups, words and sentences were tried.",
    "Swaps show how the model treats words. They do not show whether its errors harm one group more in your data, nor "
    "what is done with the answers.",
    "The lexicon is English, has few groups per axis, and treats axes one at a time.",
    "Some swaps change more than the group: a text may be about something that is likelier for one group. Read "
    "swaps.csv before you conclude anything.",
)
AREA_NAMES = {"subgroup_auc": "subgroup", "bpsn_auc": "BPSN", "bnsp_auc": "BNSP"}


def bias_table(summary: Mapping[str, Any]) -> Table:
    """Return the groups of all tasks, those with significant shifts first."""
    most = max(3, ROWS // max(1, len(summary["tasks"])))  # of each task, so that all of them are seen
    rows = [
        (name, each["axis"], each["group"], _against(each), f"{each['pairs']:,}", *_figures(each))
        for name, task in summary["tasks"].items()
        for each in by_weight(task["groups"])[:most]
    ]
    tasks = summary["tasks"].values()
    found = sum(each["significant"] for task in tasks for each in task["groups"])
    total = sum(len(task["groups"]) for task in tasks)
    more = total - len(rows)
    lines = [
        *([f"{more} more groups, with smaller or no significant shifts, are in bias.html."] if more > 0 else []),
        f"{found} of {total} mean shifts are significant (5 %, {summary['correction']}).",
        *(f"{name}: {overall_line(task)}" for name, task in summary["tasks"].items()),
        f"From {summary['rows_from']}, checkpoint {summary['checkpoint']}, seed {summary['seed']}.",
        *(f"{name} was not audited: {reason}" for name, reason in summary.get("skipped", {}).items()),
        LIMITS[0],
    ]
    header = ("task", "axis", "group", "against", "pairs", "flips", "mean shift", "95 % interval", "p adjusted", "")
    return Table(header, rows, lines)


def by_weight(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return groups with significant shifts first, larger shifts before smaller ones."""
    return sorted(groups, key=lambda each: (not each["significant"], -abs(each["mean_shift"])))


def overall_line(task: Mapping[str, Any]) -> str:
    """Say in one line what swaps do to a task's answers."""
    unit = "of the number" if task["unit"] == "number" else "in log odds"
    return (
        f"{task['flip_rate']:.1%} of {plural(task['pairs'], 'pair')} get {task['flip']}; "
        f"mean absolute shift {task['mean_absolute_shift']:.3f} {unit}."
    )


def _against(figure: Mapping[str, Any]) -> str:
    others = figure["against"]
    return others[0] if len(others) == 1 else f"{len(others)} others"


def _figures(figure: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = figure["interval"]
    of = f" ({figure['class']})" if figure.get("class") else ""
    return (
        f"{figure['flip_rate']:.1%}",
        f"{figure['mean_shift']:+.3f}{of}",
        f"{low:+.3f} … {high:+.3f}",
        f"{figure['p_adjusted']:.4f}",
        "significant" if figure["significant"] else "",
    )


def bias_summary(summary: Mapping[str, Any], *, is_stale: bool = False) -> dict[str, Any]:
    """Return what the run's report and the page of a service say of an audit.

    Args:
        summary: The content of bias.json.
        is_stale: Whether the checkpoint has changed since the audit.
    """
    tasks = []
    for name, task in summary["tasks"].items():
        shifts = [each for each in by_weight(task["groups"]) if each["significant"]]
        tasks.append(
            {
                "name": name,
                "overall": overall_line(task),
                "groups": len(task["groups"]),
                "significant": len(shifts),
                "largest": [
                    f"{each['axis']}: {each['group']} {each['mean_shift']:+.3f}"
                    + (f" ({each['class']})" if each.get("class") else "")
                    for each in shifts[:3]
                ],
            }
        )
    return {
        "tasks": tasks,
        "rows_from": summary["rows_from"],
        "checkpoint": summary["checkpoint"],
        "limits": list(LIMITS),
        "is_stale": is_stale,
    }


def bias_section(summary: Mapping[str, Any] | None) -> Markup:
    """Return the section of the run's report; empty without an audit."""
    return Markup(render("bias_section.html.j2", bias=summary)) if summary else Markup("")


def render_bias(summary: Mapping[str, Any], *, title: str, examples: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Render bias.html.

    Args:
        summary: The content of bias.json.
        title: The name of the run.
        examples: Lines of swaps.csv to show, by task.
    """
    tasks = [
        {
            **task,
            "name": name,
            "anchor": f"task-{number}",
            "overall": overall_line(task),
            "groups": by_weight(task["groups"]),
            "files": {
                file: {**each, "groups": by_weight(each["groups"])} for file, each in task.get("files", {}).items()
            },
            "areas": [each for each in task.get("subgroups", []) if any(each[area] is not None for area in AREA_NAMES)],
            "small": sum(all(each[area] is None for area in AREA_NAMES) for each in task.get("subgroups", [])),
            "examples": examples.get(name, []),
        }
        for number, (name, task) in enumerate(summary["tasks"].items())
    ]
    return render("bias.html.j2", title=title, summary=summary, tasks=tasks, area_names=AREA_NAMES)
