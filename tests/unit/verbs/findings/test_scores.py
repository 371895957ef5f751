"""Findings about scores: each appears where it applies, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from palbert.verbs.findings import scores
from palbert.verbs.findings.evidence import Evidence

Make = Callable[..., Evidence]
FINDINGS = [scores.constant_answer, scores.below_baseline, scores.class_never_found, scores.wide_interval]


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.__name__)
def test_nothing_is_found_in_good_scores(finding: Callable[[Evidence], list[str]], evidence: Make) -> None:
    assert list(finding(evidence(baselines={"majority / mean": {"reviews": 0.5}}))) == []


def test_one_answer_for_all_rows_is_reported_once(evidence: Make) -> None:
    made = evidence(predicted=[2, 2, 2, 2])
    [note] = scores.constant_answer(made)
    assert note.startswith("reviews: the model answers 'good' for all 4 rows.")
    assert list(scores.class_never_found(made)) == []


def test_one_answer_is_right_where_all_labels_are_the_same(evidence: Make) -> None:
    assert list(scores.constant_answer(evidence(dev=[("a", 2), ("b", 2)]))) == []


def test_a_class_that_is_never_found_is_named(evidence: Make) -> None:
    [note] = scores.class_never_found(evidence(predicted=[2, 0, 0, 2]))
    assert note.startswith("reviews: the class 'dull' is never answered correctly (F1 0, 1 dev row).")


@pytest.mark.parametrize(("baseline", "relation"), [(0.9, "is worse"), (0.75, "is not clearly better")])
def test_the_best_baseline_that_is_not_beaten_is_named(baseline: float, relation: str, evidence: Make) -> None:
    made = evidence(
        predicted=[2, 0, 0, 2],
        baselines={"majority / mean": {"reviews": 0.1}, "any other": {"reviews": baseline}},
        intervals={"reviews": {"low": 0.65, "high": 0.8}},
    )
    [note] = scores.below_baseline(made)
    assert relation in note and f"than the baseline 'any other', {baseline:.3f}. To improve it, train for" in note


@pytest.mark.parametrize("name", scores.REMEDIES)
def test_a_known_baseline_that_is_better_is_named_with_what_to_try(name: str, evidence: Make) -> None:
    made = evidence(predicted=[0, 0, 0, 2], baselines={"majority / mean": {"reviews": 0.1}, name: {"reviews": 0.9}})
    [note] = scores.below_baseline(made)
    assert note.startswith(f"reviews: accuracy 0.500 is worse than the baseline '{name}', 0.900.")
    assert note.endswith(f"; {scores.REMEDIES[name]}.")


def test_of_errors_the_lower_one_is_better(evidence: Make) -> None:
    made = evidence()
    error = replace(made.results[0], metric="log_loss", scores={"log_loss": 0.5})
    for baseline, notes in ((0.9, 0), (0.4, 1)):
        found = replace(
            made,
            results=[error],
            intervals={"reviews": {"low": 0.45, "high": 0.6}},
            baselines={"linear probe": {"reviews": baseline}},
        )
        assert len(list(scores.below_baseline(found))) == notes


def test_a_baseline_of_another_task_is_not_compared(evidence: Make) -> None:
    made = evidence(predicted=[0, 0, 0, 2], baselines={"cosine": {"other": 0.8}})
    assert list(scores.below_baseline(made)) == []


def test_a_wide_interval_asks_for_more_rows(evidence: Make) -> None:
    [note] = scores.wide_interval(evidence(intervals={"reviews": {"low": 0.6, "high": 0.95}}))
    assert "with 4 dev rows, its accuracy may be anywhere from 0.600 to 0.950" in note


def test_a_perfect_score_that_a_baseline_has_too_asks_for_harder_rows(evidence: Make) -> None:
    made = evidence(baselines={"linear probe": {"reviews": 1.0}}, intervals={"reviews": {"low": 1.0, "high": 1.0}})
    [note] = scores.below_baseline(made)
    assert note.endswith("Both are perfect: score harder or more rows to tell them apart.")


def test_a_task_that_started_from_the_baseline_is_not_told_to_start_from_it(evidence: Make) -> None:
    made = evidence(predicted=[0, 0, 0, 2], baselines={"linear probe": {"reviews": 0.9}})
    tasks = {"reviews": made.recipe.tasks["reviews"].model_copy(update={"head_start": "probe"})}
    [note] = scores.below_baseline(replace(made, recipe=made.recipe.model_copy(update={"tasks": tasks})))
    assert note.endswith("Training started from there: label more rows, or use the simpler model.")
