"""Captions of tables: what the scores below were measured with, as far as it differs from row to row."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.reproduction.table import caption


def result(row: str = "all", *, seed: int = 0, quora: int = 900, encoder: str = "plain", **own: Any) -> dict[str, Any]:
    return {
        "table": "mine/one",
        "row": row,
        "seed": seed,
        "encoder": {"name": encoder, "sha256": "0" * 64},
        "data": {"variant": "samples"},
        "rows": {"sst": {"train": 1000, "dev": 50}, "quora": {"train": quora, "dev": 40}},
        "formula": "(sst + quora) / 2",
        "tasks": {"sst": {}, "quora": {}},
        "device": "cuda",
        "precision": "bf16",
        **own,
    }


def test_rows_and_seeds_that_differ_are_given_from_the_fewest_to_the_most() -> None:
    text = caption([result(seed=0), result(seed=1), result("strict", quora=600), result("extra", quora=1200)])
    assert "sst 1,000 / 50, quora 600 to 1,200 / 40" in text
    assert "1 to 2 seeds, mean ± standard deviation" in text


def test_sets_of_a_part_of_the_rows_are_named_too() -> None:
    more = {"sst": {"train": 1000, "dev": 50}, "sst+phrases": {"train": 7000}}
    assert "quora 900 / 40, sst+phrases 7,000)" in caption([result(), result("more", rows=more)])


@pytest.mark.parametrize(("jobs", "said"), [(1, False), (3, True)])
def test_seconds_of_runs_side_by_side_are_said_to_be_that(jobs: int, said: bool) -> None:
    assert ("Up to 3 runs at a time" in caption([result(jobs=jobs), result()])) == said


def test_one_seed_has_no_spread_and_what_an_encoder_has_seen_is_said() -> None:
    text = caption([result(encoder="bge-small-en-v1.5")])
    assert "1 seed, no spread is known" in text and "has seen quora pairs" in text
    assert "has seen" not in caption([result()])
