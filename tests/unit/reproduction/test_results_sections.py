"""Sections of the results page: verdicts on claims with their numbers, and what sharing gains or costs."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.reproduction.claims import Claim, Transfer
from palbert.reproduction.results_sections import claims_section, overview_section, transfer_sections

TRANSFER = Transfer(text="Sharing", shared="a/b:all", alone={"sst": "a/b:sst", "sts": "a/b:sts"}, remark="Beware.")


def results(*scores: dict[str, float]) -> list[dict[str, Any]]:
    """Make the results of a row, one per seed."""
    return [
        {
            "seed": seed,
            "overall": sum(each.values()) / len(each),
            "tasks": {task: {"accuracy": value} for task, value in each.items()},
            "metrics": dict.fromkeys(each, "accuracy"),
        }
        for seed, each in enumerate(scores)
    ]


def test_a_claim_is_shown_with_difference_interval_seeds_and_reported_difference() -> None:
    claim = Claim(text="A beats B.", report="X", row="a/b:a", than=("a/b:b",), metric="sst", least=0.0, remark="So.")
    other = Claim(text="C beats B.", row="a/b:c", than=("a/b:b",), metric="sst", least=0.0)
    rows = {
        "a/b:a": results({"sst": 0.52}, {"sst": 0.54}, {"sst": 0.53}),
        "a/b:b": results({"sst": 0.50}, {"sst": 0.49}, {"sst": 0.51}),
    }
    reported = {"a/b:a": {"sst": 0.6}, "a/b:b": {"sst": 0.5}, "a/b:c": {}}
    [text] = claims_section({"first": claim, "second": other}, rows, reported)
    assert "| A beats B. | X | +0.100 | +0.030 (+0.007 … +0.053) | **holds** |" in text and "C beats B. |" not in text
    assert (
        "**A beats B.** It holds: sst of `a/b:a` is +0.030 (+0.007 … +0.053) compared with `a/b:b` "
        "(3 seeds; reported +0.100, outside the interval). Required: at least +0. So." in text
    )
    assert "Not run with this encoder and data: C beats B." in text
    assert claims_section({"second": other}, rows, reported) == []


@pytest.mark.parametrize(
    ("scores", "word"),
    [
        ((0.60, 0.61, 0.62), "gains"),
        ((0.40, 0.41, 0.42), "**loses**"),
        ((0.49, 0.51, 0.50), "no difference seen"),
        ((0.60,), "no spread known"),
        ((0.60, 0.60), "gains"),
    ],
)
def test_sharing_gains_costs_or_makes_no_difference(scores: tuple[float, ...], word: str) -> None:
    rows = {
        "a/b:all": results(*({"sst": value, "sts": 0.8} for value in scores)),
        "a/b:sst": results({"sst": 0.50}, {"sst": 0.51}, {"sst": 0.49}),
    }
    [text] = transfer_sections({"one": TRANSFER}, rows)
    [line] = [line for line in text.splitlines() if line.startswith("| sst |")]
    assert line.endswith(f"| {word} |") and "| sts |" not in text and "Beware." in text
    assert ("**Warning: sharing costs sst (" in text) == (word == "**loses**")


def test_sharing_is_not_mentioned_if_nothing_can_be_compared() -> None:
    assert transfer_sections({"one": TRANSFER}, {"a/b:all": results({"sst": 0.5, "sts": 0.8})}) == []


def test_the_overview_counts_runs_once_and_names_the_highest_mean() -> None:
    def run(seed: int, fingerprint: str, overall: float) -> dict[str, Any]:
        tasks: dict[str, Any] = {"sst": {}, "sts": {}}
        return {"seed": seed, "fingerprint": fingerprint, "overall": overall, "tasks": tasks, "formula": "mean"}

    rows = {
        "a/b:one": [run(0, "x", 0.70), run(1, "x", 0.80)],
        "a/c:same": [run(0, "x", 0.70)],  # a run of both tables
        "a/c:other": [run(0, "y", 0.76)],  # higher, but of one seed
        "a/d:scaled": [{**run(seed, "v", 0.9), "formula": "another"} for seed in (0, 1)],  # and by another formula
    }
    alone = {"a/b:sst": [{**run(0, "z", 0.9), "tasks": {"sst": {}}}]}  # one task has no overall
    [text] = overview_section({"v1.5, data Mine": rows, "other": alone})
    assert "| [v1.5, data Mine](#v15-data-mine) | 5 | 0.750 ± 0.071 (2 seeds) | `a/b:one` |" in text
    assert "| [other](#other) | 1 | – | – |" in text
    assert overview_section({}) == []


def test_more_than_three_seeds_are_no_advantage_for_the_highest_mean() -> None:
    def run(seed: int, fingerprint: str, overall: float) -> dict[str, Any]:
        return {
            "seed": seed,
            "fingerprint": fingerprint,
            "overall": overall,
            "tasks": {"a": {}, "b": {}},
            "formula": "f",
        }

    rows = {
        "a/b:three": [run(seed, "x", 0.80) for seed in range(3)],
        "a/b:six": [run(seed, "y", 0.70) for seed in range(6)],
        "a/b:two": [run(seed, "z", 0.90) for seed in range(2)],
    }
    [text] = overview_section({"encoder": rows})
    assert "| 0.800 ± 0.000 (3 seeds) | `a/b:three` |" in text
