"""Evidence: which rows and records findings look at."""

from __future__ import annotations

from collections.abc import Callable

from palbert.verbs.findings.evidence import Evidence

Make = Callable[..., Evidence]


def test_rows_are_those_of_training_and_of_the_scored_split(evidence: Make) -> None:
    assert [(name, rows.split) for name, rows in evidence().all_rows] == [("reviews", "train"), ("reviews", "dev")]
    assert [rows.split for _, rows in evidence(split="train").all_rows] == ["train"]


def test_records_are_found_by_their_kind(evidence: Make) -> None:
    made = evidence(records=[{"kind": "train", "step": 1}, {"kind": "epoch", "step": 2}])
    assert made.records_of("epoch") == [{"kind": "epoch", "step": 2}]
