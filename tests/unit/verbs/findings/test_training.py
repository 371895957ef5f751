"""Findings about training: each appears where it applies, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from palbert.verbs.findings import training
from palbert.verbs.findings.evidence import Evidence

Make = Callable[..., Evidence]
FINDINGS = [training.too_few_steps, training.unstable_loss, training.best_before_training, training.still_rising]


def losses(values: Sequence[float]) -> list[dict[str, Any]]:
    return [{"kind": "train", "step": 10 * n, "losses": {"reviews": value}} for n, value in enumerate(values, 1)]


def evaluations(values: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {"kind": "evaluation", "epoch": epoch, "overall": value, "tasks": {"reviews": {"accuracy": value}}}
        for epoch, value in enumerate(values)
    ]


def epochs(*drawn: int) -> list[dict[str, Any]]:
    return [{"kind": "epoch", "epoch": epoch, "drawn": {"reviews": steps}} for epoch, steps in enumerate(drawn, 1)]


FALLING = [1.0 / (1 + 0.1 * step) + (0.02 if step % 2 else 0.0) for step in range(30)]


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.__name__)
def test_nothing_is_found_in_sound_training(finding: Callable[[Evidence], list[str]], evidence: Make) -> None:
    sound = [*losses(FALLING), *evaluations([0.3, 0.7, 0.8, 0.79]), *epochs(50, 50, 50)]
    assert list(finding(evidence(records=sound))) == []
    assert list(finding(evidence(records=[]))) == []


def test_few_steps_are_reported_with_the_epochs_that_are_needed(evidence: Make) -> None:
    [note] = training.too_few_steps(evidence(records=epochs(10, 10, 10)))
    assert note.startswith("reviews: trained in 30 steps; fewer than 50 are rarely enough.")
    assert "training.epochs from 3 to 6" in note


def test_a_jump_of_the_loss_is_reported_with_its_step(evidence: Make) -> None:
    values = [*FALLING[:15], 2.5, *FALLING[15:]]
    [note] = training.unstable_loss(evidence(records=losses(values)))
    assert note.startswith("reviews: its training loss jumped once, first by step 160.")


def test_a_loss_that_rises_at_the_end_is_reported(evidence: Make) -> None:
    values = [*FALLING[:20], *(FALLING[20] + 0.05 * step for step in range(10))]
    [note] = training.unstable_loss(evidence(records=losses(values)))
    assert note.startswith("reviews: its training loss rose towards the end.")


def test_a_loss_close_to_zero_may_vary(evidence: Make) -> None:
    values = [1.0, 0.5, 0.2, *([0.001, 0.003] * 10), 0.02, 0.03]
    assert list(training.unstable_loss(evidence(records=losses(values)))) == []


def test_a_score_that_was_best_before_training_is_reported(evidence: Make) -> None:
    [note] = training.best_before_training(evidence(records=evaluations([0.8, 0.7, 0.75])))
    assert note.startswith("reviews: its dev score was best before training.")
    assert list(training.best_before_training(evidence(records=evaluations([0.8, 0.8])))) == []


def test_a_score_that_still_rises_asks_for_more_epochs(evidence: Make) -> None:
    [note] = training.still_rising(evidence(records=evaluations([0.3, 0.5, 0.6, 0.7])))
    assert note == ("The dev score still rose at the end, from 0.600 to 0.700. Train longer: training.epochs = 6.")
    assert list(training.still_rising(evidence(records=evaluations([0.3, 0.6, 0.601])))) == []


def test_a_run_that_a_limit_ended_is_told_to_raise_it(evidence: Make) -> None:
    drawn = {"kind": "epoch", "drawn": {"reviews": 3}}
    [note] = training.too_few_steps(evidence(records=[drawn, {"kind": "end", "step": 3, "reason": "time"}]))
    assert note.endswith("The run finished early: raise the limit that ended it.")
