"""Table summaries: means and differences over seeds, and captions that say what the scores were measured with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.reproduction.summaries import caption, summarise, summarise_table
from palbert.reproduction.tables import load_table

MakeResult = Callable[..., dict[str, Any]]


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


def test_sets_of_some_rows_are_named_too() -> None:
    more = {"sst": {"train": 1000, "dev": 50}, "sst+phrases": {"train": 7000}}
    assert "quora 900 / 40, sst+phrases 7,000)" in caption([result(), result("more", rows=more)])


@pytest.mark.parametrize(("jobs", "said"), [(1, False), (3, True)])
def test_seconds_of_simultaneous_runs_are_marked_as_not_comparable(jobs: int, said: bool) -> None:
    assert ("Up to 3 runs at a time" in caption([result(jobs=jobs), result()])) == said


def test_one_seed_has_no_spread_and_contaminated_scores_are_marked() -> None:
    text = caption([result(encoder="bge-small-en-v1.5")])
    assert "1 seed, no spread is known" in text and "has seen quora pairs" in text
    assert "has seen" not in caption([result()])


def test_a_row_has_mean_spread_and_difference_over_seeds(make_result: MakeResult) -> None:
    results = [make_result(seed=seed, sst=value) for seed, value in enumerate((0.4, 0.6))]
    row = {"row": "plain", "label": "plain", "note": "", "reported": {"sst": 0.45, "sts.mse": 1.0}, "results": results}
    summary = summarise("mine/one", "Title", "", [row])
    assert summary["metrics"] == ["sst", "sts.mse", "sts", "overall"]
    [found] = summary["rows"]
    assert found["ours"]["sst"]["values"] == (0.4, 0.6) and found["ours"]["sst"]["mean"] == pytest.approx(0.5)
    assert found["ours"]["sst"]["deviation"] == pytest.approx(0.2 / 2**0.5)
    assert found["difference"] == {"sst": pytest.approx(0.05)}  # the results have no sts.mse
    assert found["seeds"] == [0, 1] and found["seconds"] == 10.5


def test_rows_that_were_not_run_keep_their_reported_scores(folder: Path, make_result: MakeResult) -> None:
    summary = summarise_table(load_table("mine/one"), {"frozen": [make_result("frozen")]})
    plain, frozen = summary["rows"]
    assert plain["reported"] == {"sst": 0.5, "overall": 0.6} and plain["ours"] == {} and plain["seconds"] is None
    assert frozen["seeds"] == [0] and frozen["note"] == "Heads."
    assert summarise_table(load_table("mine/one"), {})["caption"] == "Not run."
