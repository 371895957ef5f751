"""The report of a search: one self-contained HTML page, and the tables of terminals and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from typing import Any

from palbert.reporting import tuning_plots
from palbert.reporting.display import Table
from palbert.reporting.page import Plot, plot, render
from palbert.reporting.wording import number, signed

MOST_PAIRS = 6
"""Pairs of tasks that are drawn."""


def render_tuning(title: str, summary: Mapping[str, Any], *, recipe: str, space: str) -> str:
    """Render the report of a search as one HTML page that loads nothing from elsewhere.

    Args:
        title: The heading.
        summary: The content of tune.json.
        recipe: The best recipe as TOML; empty if there is none.
        space: The space as TOML.
    """
    best, confirmation = summary["best"], summary["confirmation"]
    states = [trial["state"] for trial in summary["trials"]]
    return render(
        "tune.html.j2",
        title=title,
        summary=summary,
        best=best,
        confirmation=confirmation,
        counts={state: states.count(state) for state in ("complete", "pruned", "failed", "running") if state in states},
        ordered=ordered(summary["trials"]),
        learning=_learning_plots(summary) if best else [],
        matters=_importance_plots(summary) if best else [],
        slices=_slices(summary) if best else [],
        fronts=_fronts(summary) if best else [],
        setting=shown_value,
        recipe=recipe,
        space=space,
    )


def ordered(trials: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return complete trials, the best first, then the others."""
    states = ["complete", "pruned", "running", "failed"]
    return sorted(trials, key=lambda each: (states.index(each["state"]), -(each["score"] or 0.0), each["number"]))


def trials_table(summary: Mapping[str, Any]) -> Table:
    """Return all trials, the best first."""
    metrics: Mapping[str, str] = summary["metrics"]
    rows = [
        (
            str(trial["number"]),
            trial["state"],
            number(trial["score"], 4),
            *(number(trial["tasks"].get(task, {}).get(metric)) for task, metric in metrics.items()),
            *(shown_value(trial["parameters"][key]) for key in summary["space"]),
        )
        for trial in ordered(summary["trials"])
    ]
    return Table(("trial", "state", "overall", *metrics, *summary["space"]), rows)


def result_table(summary: Mapping[str, Any]) -> Table:
    """Return the best settings next to what was searched, and how good they are."""
    best = summary["best"]
    rows = [
        (key, shown_value(best["parameters"][key]) if best else "–", shown_range(values))
        for key, values in summary["space"].items()
    ]
    states = [trial["state"] for trial in summary["trials"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    lines = [f"Trials: {counts}" if counts else "No trials"]
    if best:
        tasks = ", ".join(
            f"{task} {number(best['tasks'].get(task, {}).get(metric))}" for task, metric in summary["metrics"].items()
        )
        lines.append(f"Best: trial {best['number']}, overall {number(best['score'], 4)} ({tasks})")
    lines += fresh_lines(summary["confirmation"])
    return Table(("setting", "best", "searched"), rows, (*lines, *(f"Note: {note}" for note in summary["notes"])))


def fresh_lines(confirmation: Mapping[str, Any] | None) -> list[str]:
    """Say how good the best settings and the recipe are with fresh seeds."""
    if confirmation is None:
        return []
    line = (
        f"With fresh seeds: best {number(confirmation['best'], 4)}, recipe as given {number(confirmation['recipe'], 4)}"
    )
    difference = confirmation["difference"]
    if difference:
        line += f", difference {signed(difference['mean'], 4)}"
        if difference["low"] is not None:
            line += f" ({signed(difference['low'], 4)} to {signed(difference['high'], 4)})"
    return [line]


def shown_value(value: Any) -> str:
    """Write a value of a setting; numbers with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shown_range(values: Mapping[str, Any]) -> str:
    """Write the values of a setting that were searched."""
    if "choices" in values:
        return ", ".join(map(str, values["choices"]))
    return f"{values['low']:g} … {values['high']:g}" + (" (log)" if values.get("log") else "")


def _learning_plots(summary: Mapping[str, Any]) -> list[Plot]:
    best, fresh = summary["best"]["number"], summary["confirmation"] and summary["confirmation"]["best"]
    return [
        *plot(
            "Every trial's overall score on dev, and the best so far.",
            tuning_plots.history,
            summary["trials"],
            fresh=fresh,
        ),
        *plot(
            "Scores by evaluation: the best trial in its own colour, trials that were ended early in grey.",
            tuning_plots.evaluation_curves,
            summary["trials"],
            best=best,
        ),
    ]  # fmt: skip


def _importance_plots(summary: Mapping[str, Any]) -> list[Plot]:
    shown = []
    if summary["importances"]:
        shown += plot(
            "How much each setting decides whether a trial is among the best (PED-ANOVA; shares of 1). "
            "With few trials, only large differences mean anything.",
            tuning_plots.importances,
            summary["importances"],
        )
    caption = "Every complete trial is a line through its settings to its score; better ones are stronger."
    best = summary["best"]["number"]
    return shown + plot(caption, tuning_plots.parallel_coordinates, summary["trials"], summary["space"], best=best)


def _slices(summary: Mapping[str, Any]) -> list[Plot]:
    """Return the scores by each setting, the most important ones first."""
    keys = sorted(summary["space"], key=lambda key: -summary["importances"].get(key, 0.0))
    best = summary["best"]["number"]
    plots = []
    for key in keys:
        plots += plot(key, tuning_plots.slice_plot, key, summary["space"][key], summary["trials"], best=best)
    return plots


def _fronts(summary: Mapping[str, Any]) -> list[Plot]:
    """Return the trials by the scores of each pair of tasks."""
    metrics: Mapping[str, str] = summary["metrics"]
    complete = [trial for trial in summary["trials"] if trial["state"] == "complete"]
    plots = []
    for one, two in islice(combinations(metrics, 2), MOST_PAIRS):
        names = [f"{task} {metrics[task]}" for task in (one, two)]
        points = {
            trial["number"]: (trial["tasks"][one][metrics[one]], trial["tasks"][two][metrics[two]])
            for trial in complete
        }
        plots += plot(
            f"{names[0]} and {names[1]}", tuning_plots.pareto_front, points, summary["pareto"], x=names[0], y=names[1]
        )
    return plots
